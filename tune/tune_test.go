package tune

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

func recording(t *testing.T, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile("../tests/traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestBounds: STALLOC_CONF takes what a search may find, and no more.
func TestBounds(t *testing.T) {
	text, err := os.ReadFile("../cshim/lib/conf.c")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range Settings {
		ends := s.text(s.Least) + " to " + s.text(s.Most)
		if s.Key == "handle_most" {
			ends = "2MiB to 1GiB"
		} else if s.Key == "small_limit" {
			ends = "512 bytes to 1MiB"
		}
		known := strings.Contains(string(text), `{"`+s.Key+`", `)
		if !known || !strings.Contains(string(text), "from "+ends+`"`) {
			t.Errorf("conf.c has no %s from %s", s.Key, ends)
		}
		for _, n := range []int64{s.Least, s.Most, Defaults()[i]} {
			if got := s.value(variable(n)); got != n {
				t.Errorf("%s %d is %d once it was a variable", s.Key, n, got)
			}
		}
		low, high := s.value(variable(s.Least)-3), s.value(variable(s.Most)+3)
		if low != s.Least || high != s.Most {
			t.Errorf("%s: beyond its bounds are %d and %d", s.Key, low, high)
		}
	}
}

func TestConf(t *testing.T) {
	if got := Defaults().Conf(); got != "" {
		t.Errorf("the defaults are %q", got)
	}
	v := Values{500, 4 << 20, 8, 1536}
	if got := v.Conf(); got != "handle_part:500,handle_most:4MiB,small_limit:1536" {
		t.Errorf("%q", got)
	}
	c := v.Config()
	if c.HandlePart != 500 || c.HandleMost != 4*mem.MiB || c.GrowPart != 8 || c.SmallLimit != 1536 {
		t.Errorf("%+v", c)
	}
}

// TestRun: whoever replays how many at once, the front is the same; none of it is better than
// another, and each point is what its settings come to.
func TestRun(t *testing.T) {
	tr := recording(t, "llama_naive")
	o := Options{Replays: 26, Noise: 0.01, Seed: 3, Workers: 1, Capacity: 80 * mem.GiB,
		Bounds: map[string][2]int64{"handle_part": {64, 1024}}}
	last := 0
	front, defaults, err := Run(t.Context(), []*trace.Trace{tr}, o, func(done, total int) {
		if last = done; total != 26 {
			t.Errorf("%d replays of %d", done, total)
		}
	})
	if err != nil || last > 26 || len(front) < 3 {
		t.Fatalf("%d points after %d replays: %v", len(front), last, err)
	}
	o.Workers = 3
	again, _, err := Run(t.Context(), []*trace.Trace{tr}, o, nil)
	if err != nil || !slices.Equal(front, again) {
		t.Errorf("with 3 workers %v, with one %v: %v", again, front, err)
	}
	if defaults.Values != Defaults() || defaults.Objectives[0] <= 0 {
		t.Errorf("the defaults are %+v", defaults)
	}
	ours, _ := replay.Lookup("stalloc")
	for i, p := range front {
		for _, q := range front {
			if better(q.Objectives, p.Objectives) {
				t.Errorf("%+v is better than %+v", q, p)
			}
		}
		if p.Values[0] < 64 || p.Values[0] > 1024 {
			t.Errorf("point %d lies outside of the bounds: %v", i, p.Values)
		}
		if i%3 > 0 {
			continue
		}
		var r [2]replay.Result
		for side, tr := range []*trace.Trace{tr, tr.Disturb(3, 0.01)} {
			c := replay.Config{Capacity: 80 * mem.GiB, Range: p.Values.Config()}
			if r[side], err = ours.Replay(t.Context(), tr, c, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := objectives(&r[0], &r[1]); got != p.Objectives {
			t.Errorf("%q comes to %v, and %v was found", p.Values.Conf(), got, p.Objectives)
		}
	}
}

func better(a, b Objectives) bool {
	for k := range a {
		if a[k] > b[k] {
			return false
		}
	}
	return a != b
}

// TestInterrupted: what was evaluated before counts.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Replays: 400, Noise: 0.01, Seed: 3, Workers: 2, Capacity: 80 * mem.GiB}
	most := 0
	traces := []*trace.Trace{recording(t, "llama_naive")}
	front, defaults, err := Run(ctx, traces, o, func(done, _ int) {
		if most = done; done == 8 {
			cancel()
		}
	})
	if err != nil || len(front) == 0 || len(front) > 4 || most > 60 {
		t.Errorf("%d points of %d replays, interrupted after 8: %v", len(front), most, err)
	}
	if defaults.Values != Defaults() {
		t.Errorf("the defaults are %+v", defaults)
	}
}

// TestKnownValues: points that round to them cost no replay.
func TestKnownValues(t *testing.T) {
	last := 0
	few := map[string][2]int64{"handle_part": {400, 404}, "handle_most": {64 << 20, 64 << 20},
		"grow_part": {8, 8}, "small_limit": {64 << 10, 64 << 10}}
	_, _, err := Run(t.Context(), []*trace.Trace{recording(t, "llama_naive")},
		Options{Replays: 5, Capacity: 80 * mem.GiB, Bounds: few},
		func(done, _ int) { last = done })
	if err != nil || last != 5 {
		t.Errorf("%d replays of 5 values: %v", last, err)
	}
}

// TestNoNoise: without it a point takes one replay.
func TestNoNoise(t *testing.T) {
	last := 0
	front, defaults, err := Run(t.Context(), []*trace.Trace{recording(t, "llama_naive")},
		Options{Replays: 7, Capacity: 80 * mem.GiB}, func(done, _ int) { last = done })
	if err != nil || last != 7 || len(front) < 2 || defaults.Values != Defaults() {
		t.Fatalf("%d points after %d replays, the defaults %v: %v", len(front), last, defaults, err)
	}
	for _, p := range front {
		if p.Objectives[0] != p.Objectives[4] {
			t.Errorf("%v waste %v, with noise that there is not %v", p.Values, p.Objectives[0],
				p.Objectives[4])
		}
	}
}

func TestRefused(t *testing.T) {
	tr := recording(t, "llama_naive")
	isMark := func(e trace.Event) bool { return e.Kind == trace.Mark }
	unmarked := &trace.Trace{
		Name: "unmarked", Events: slices.DeleteFunc(slices.Clone(tr.Events), isMark),
	}
	good := Options{Replays: 4, Capacity: 80 * mem.GiB}
	bounded := func(key string, least, most int64) Options {
		o := good
		o.Bounds = map[string][2]int64{key: {least, most}}
		return o
	}
	for want, x := range map[string]struct {
		tr *trace.Trace
		o  Options
	}{
		"unmarked has no steps":      {unmarked, good},
		"1 replays are too few":      {tr, Options{Replays: 1, Noise: 0.01}},
		"--capacity":                 {tr, Options{Replays: 4, Capacity: mem.GiB}},
		"handle_part from 9 to 20":   {tr, bounded("handle_part", 9, 20)},
		"grow_part from 9 to 3":      {tr, bounded("grow_part", 9, 3)},
		"handle_most from 2MiB to 2": {tr, bounded("handle_most", 2<<20, 2<<30)},
		"\"limit\" is no setting":    {tr, bounded("limit", 1, 2)},
	} {
		_, _, err := Run(t.Context(), []*trace.Trace{x.tr}, x.o, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q was expected: %v", want, err)
		}
	}
}
