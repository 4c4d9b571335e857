package residency

import (
	"reflect"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// example is the one of the package's doc.
func example() *Problem {
	return &Problem{
		Items: []Item{{2, 0, 8 * unit, false}, {1, unit, 7 * unit, false}},
		Load:  curve(0, 1, 2, 3, 3, 2, 1, 0),
		Limit: 4, Link: Link{2, 2}, Handle: 1,
	}
}

// curve is a load by unit.
func curve(loads ...int) (c []Load) {
	for i, l := range loads {
		c = append(c, Load{Nanos(i) * unit, mem.Bytes(l)})
	}
	return c
}

// TestTable: answers that were found by hand. Times are in units; a move is item, size, and its
// four times.
func TestTable(t *testing.T) {
	with := func(change func(p *Problem)) *Problem {
		p := example()
		change(p)
		return p
	}
	for _, c := range []struct {
		name  string
		p     *Problem
		moves [][6]Nanos
		waits [][2]Nanos
		peak  int
		over  int
	}{
		{"the doc's", example(), [][6]Nanos{{0, 2, 0, 1, 6, 7}}, nil, 4, 0},
		{"nothing need leave", with(func(p *Problem) { p.Limit = 6 }), nil, nil, 6, 0},
		{"both leave", with(func(p *Problem) { p.Limit = 3 }),
			[][6]Nanos{{0, 2, 0, 1, 7, 8}, {1, 1, 1, 1, 5, 5}}, nil, 3, 0},
		{"less than the load", with(func(p *Problem) { p.Limit = 2 }), nil, nil, 0, 1},
		{"states are back late: the load falls too late",
			&Problem{Items: []Item{{4, 0, 6 * unit, false}}, Load: curve(1, 4, 4, 4, 4, 1),
				Limit: 5, Link: Link{4, 2}, Handle: 1},
			[][6]Nanos{{0, 4, 0, 1, 5, 7}}, [][2]Nanos{{6, 1}}, 5, 0},
		{"in parts they are in time",
			&Problem{Items: []Item{{4, 0, 6 * unit, true}}, Load: curve(1, 4, 4, 2, 2, 1),
				Limit: 5, Link: Link{4, 2}, Handle: 2},
			[][6]Nanos{{0, 2, 0, 0, 5, 6}, {0, 2, 0, 1, 3, 4}}, nil, 5, 0},
		{"memory that is asked for waits for what leaves",
			&Problem{Items: []Item{{4, 0, 9 * unit, false}}, Load: curve(1, 3, 1),
				Limit: 5, Link: Link{1, 4}, Handle: 1},
			[][6]Nanos{{0, 4, 0, 4, 5, 6}}, [][2]Nanos{{1, 3}}, 5, 0},
		{"too small to move", with(func(p *Problem) { p.Handle = 2 }),
			[][6]Nanos{{0, 2, 0, 1, 6, 7}}, nil, 4, 0},
		{"all too small to move", with(func(p *Problem) { p.Handle = 3 }), nil, nil, 0, 2},
		{"never idle", with(func(p *Problem) { p.Items[1].Need = 0; p.Limit = 5 }), nil, nil, 5, 0},
		{"an empty problem", &Problem{Link: Link{1, 1}, Handle: 1}, nil, nil, 0, 0},
	} {
		plan, err := Solve(c.p)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := validate(c.p, &plan); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var moves [][6]Nanos
		for _, m := range plan.Moves {
			moves = append(moves, [6]Nanos{Nanos(m.Item), Nanos(m.Size), m.OutFrom / unit,
				m.OutUntil / unit, m.BackFrom / unit, m.BackUntil / unit})
		}
		var waits [][2]Nanos
		for _, w := range plan.Waits {
			waits = append(waits, [2]Nanos{w.At / unit, w.For / unit})
		}
		if !reflect.DeepEqual(moves, c.moves) || !reflect.DeepEqual(waits, c.waits) ||
			plan.Peak != mem.Bytes(c.peak) || plan.Over != mem.Bytes(c.over) {
			t.Errorf("%s: %+v", c.name, plan)
		}
	}
}

// TestCheck: what is wrong is named.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(p *Problem)
		want   string
	}{
		{func(p *Problem) { p.Handle = 0 }, "least handle of 0"},
		{func(p *Problem) { p.Link.Back = 0 }, "0 back"},
		{func(p *Problem) { p.Link.Out = -1 }, "-1 bytes a second out"},
		{func(p *Problem) { p.Load[1].From = -1 }, "go back"},
		{func(p *Problem) { p.Load[1].Bytes = -1 }, "load 1 is -1"},
		{func(p *Problem) { p.Items[1].Size = -1 }, "item 1 has -1"},
		{func(p *Problem) {
			p.Items[0].Size, p.Items[1].Size, p.Link = 1<<60-1, 2, Link{1e15, 1e15}
		}, "item 1 has 2"},
		{func(p *Problem) { p.Items[1].Need = 1<<60 + 1 }, "item 1 is idle"},
		{func(p *Problem) { p.Items[0].Size = 1 << 40; p.Link.Out = 1 }, "takes years"},
	} {
		p := example()
		c.change(p)
		if _, err := Solve(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := Least(p); err == nil {
			t.Errorf("Least has no error, want %q", c.want)
		}
	}
}

// TestValidator: a plan that is not in order is found out, whatever is wrong with it.
func TestValidator(t *testing.T) {
	plan := func() *Plan {
		return &Plan{Moves: []Move{{0, 0, 2, 0, unit, 6 * unit, 7 * unit}}, Peak: 4, Left: 2}
	}
	if err := validate(example(), plan()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(p *Plan){
		"leaves before it is idle": func(p *Plan) { p.Moves[0].OutFrom-- },
		"too fast":                 func(p *Plan) { p.Moves[0].BackUntil-- },
		"comes back too early":     func(p *Plan) { p.Moves[0].BackFrom -= unit + 1 },
		"comes back too late":      func(p *Plan) { p.Moves[0].BackUntil = 8*unit + 1 },
		"another size":             func(p *Plan) { p.Moves[0].Size = 1 },
		"another item":             func(p *Plan) { p.Moves[0].Item = 1 },
		"another peak":             func(p *Plan) { p.Peak = 3 },
		"other bytes":              func(p *Plan) { p.Left = 3 },
		"a wait that is not told":  func(p *Plan) { p.Waits = []Wait{{unit, 1}} },
		"twice": func(p *Plan) {
			p.Moves, p.Left = append(p.Moves, p.Moves[0]),
				4
		},
		"nothing leaves":  func(p *Plan) { p.Moves, p.Left = nil, 0 },
		"over, and moves": func(p *Plan) { p.Over = 1 },
	} {
		p := plan()
		change(p)
		if validate(example(), p) == nil {
			t.Errorf("%s: not found out", name)
		}
	}
}
