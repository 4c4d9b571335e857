package dsa

import (
	"math/rand/v2"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// TestCheckFindsWhatIsPlanted: each wrong is planted in a placement that is right.
func TestCheckFindsWhatIsPlanted(t *testing.T) {
	problem := func() *Problem {
		return &Problem{
			Buffers: []Buffer{{Lower: 0, Upper: 9, Size: 8}, {Lower: 0, Upper: 4, Size: 4},
				{Lower: 3, Upper: 6, Size: 8}, {Lower: 5, Upper: 9, Size: 4}, {Lower: 2, Upper: 2,
					Size: 99}},
			Gaps:     []Gap{{Buffer: 0, Lower: 3, Upper: 6, From: 0, To: 2}},
			Pins:     []Pin{{Buffer: 1, At: 8}},
			Align:    []mem.Bytes{1, 4, 2, 4, 1},
			Capacity: 16,
		}
	}
	right := []mem.Offset{0, 8, 2, 12, 5}
	p := problem()
	p.Buffers[2].Size = 6 // of [2, 8), in the gap of the first
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := Check(p, right); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Problem, []mem.Offset){
		"0 and 2 overlap": func(p *Problem, at []mem.Offset) { p.Gaps[0].To = 3 },
		"overlap":         func(p *Problem, at []mem.Offset) { p.Gaps = nil },
		"2 and 3 overlap": func(p *Problem, at []mem.Offset) {
			at[3] = 4
			p.Gaps = append(p.Gaps,
				Gap{0, 6, 9, 0, 0})
		},
		"pinned at 8":      func(p *Problem, at []mem.Offset) { at[1] = 12 },
		"no multiple of 4": func(p *Problem, at []mem.Offset) { at[3] = 9 },
		"above the cap":    func(p *Problem, at []mem.Offset) { p.Capacity = 15 },
		"lies at -4":       func(p *Problem, at []mem.Offset) { at[3] = -4 },
		"1 and 2 overlap":  func(p *Problem, at []mem.Offset) { p.Buffers[2].Size = 7 },
	} {
		p, at := problem(), append([]mem.Offset(nil), right...)
		p.Buffers[2].Size = 6
		spoil(p, at)
		if err := Check(p, at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Check(p, right[1:]); err == nil {
		t.Error("too few offsets are accepted")
	}
}

// TestCheckAgainstPairs: the sweep says what a look at all pairs, all ticks and all bytes says.
func TestCheckAgainstPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	wrong := 0
	for range 3000 {
		p := &Problem{}
		var at []mem.Offset
		for i := range 1 + rng.IntN(6) {
			lower := rng.IntN(8)
			b := Buffer{Lower: mem.Tick(lower), Upper: mem.Tick(lower + rng.IntN(6)),
				Size: mem.Bytes(rng.IntN(5))}
			p.Buffers, at = append(p.Buffers, b), append(at, mem.Offset(rng.IntN(14)))
			if life := int(b.Upper - b.Lower); life > 0 && rng.IntN(2) == 0 {
				from := rng.IntN(life)
				window := rng.IntN(int(b.Size) + 1)
				p.Gaps = append(p.Gaps, Gap{i, b.Lower + mem.Tick(from),
					b.Lower + mem.Tick(from+rng.IntN(life-from)), 0, mem.Bytes(window)})
			}
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		naive := overlapNaively(p, at)
		if got := Check(p, at) != nil; got != naive {
			t.Fatalf("%+v at %v: the sweep finds %v, bytes overlap %v", p, at, Check(p, at), naive)
		}
		if naive {
			wrong++
		}
	}
	if wrong < 300 || wrong > 2700 {
		t.Errorf("%d of 3000 are wrong: that tests little", wrong)
	}
}

func overlapNaively(p *Problem, at []mem.Offset) bool {
	for tick := mem.Tick(0); tick < 20; tick++ {
		taken := map[mem.Bytes]bool{}
		for i, b := range p.Buffers {
			from, to := mem.Bytes(0), b.Size
			if tick < b.Lower || tick >= b.Upper {
				continue
			}
			for _, g := range p.Gaps {
				if g.Buffer == i && g.Lower <= tick && tick < g.Upper {
					from, to = g.From, g.To
				}
			}
			for ; from < to; from++ {
				if taken[mem.Bytes(at[i])+from] {
					return true
				}
				taken[mem.Bytes(at[i])+from] = true
			}
		}
	}
	return false
}
