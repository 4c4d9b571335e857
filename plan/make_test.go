package plan

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// observe reads a trace into steps: per step and stream ordinal. The first step
// is set-up and step 0 together.
func observe(t testing.TB, path string) [][]*Step {
	t.Helper()
	tr, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var streams []*Recorder
	ordinal := map[mem.StreamID]int{}
	owner := map[int64]*Recorder{}
	var steps [][]*Step
	begun := false
	for i, e := range tr.Events {
		switch e.Kind {
		case trace.Mark:
			first := e.Mark == "step 0"
			if begun && !first && (strings.HasPrefix(e.Mark, "step ") || e.Mark == "end") {
				var step []*Step
				for _, r := range streams {
					step = append(step, r.Boundary())
				}
				steps = append(steps, step)
			}
			begun = begun || first
		case trace.Alloc:
			if _, ok := ordinal[e.Stream]; !ok {
				ordinal[e.Stream] = len(streams)
				streams = append(streams, &Recorder{})
			}
			owner[e.ID] = streams[ordinal[e.Stream]]
			owner[e.ID].Alloc(uint64(e.ID), e.Size)
		case trace.FreeRequested:
			next := i + 1
			if next < len(tr.Events) && tr.Events[next].Kind == trace.FreeCompleted && tr.Events[next].ID == e.ID {
				continue
			}
			owner[e.ID].Exclude(uint64(e.ID))
		case trace.FreeCompleted:
			owner[e.ID].Free(uint64(e.ID))
		}
	}
	return steps
}

func tracePaths(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "tests", "traces", "*.csv.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return paths
}

// gap is how far a stream's arena, before rounding to handles, lies above its
// peak load.
func gap(s *Stream) float64 {
	if s.LowerBound == 0 {
		return 0
	}
	return float64(s.Makespan)/float64(s.LowerBound) - 1
}

// TestMakeTraces plans the last step, and the whole run, of every recorded
// training run.
func TestMakeTraces(t *testing.T) {
	for _, path := range tracePaths(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".csv.gz")
		steps := observe(t, path)
		last := steps[len(steps)-1]
		limit := 0.0
		if strings.HasPrefix(name, "megatron_vpp") {
			limit = 0.01
		}
		for kind, make := range map[string]func() (*Plan, error){
			"step": func() (*Plan, error) { return Make(last, Options{}) },
			"run": func() (*Plan, error) {
				return MakeRun(Run{Prologue: steps[0], Boundaries: 2, Steady: [][]*Step{last}}, Options{})
			},
		} {
			start := time.Now()
			p, err := make()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range p.Streams {
				s := &p.Streams[i]
				t.Logf("%s %s stream %d: %d slots, peak %v, gap %.4f %%, %v, %s",
					name, kind, i, len(s.Slots), s.LowerBound, 100*gap(s), time.Since(start).Round(time.Millisecond), s.Order)
				if gap(s) > limit {
					t.Errorf("%s %s stream %d: gap %.4f %%, expected at most %.4f %%", name, kind, i, 100*gap(s), 100*limit)
				}
				checkTapes(t, s, steps[0][i], last[i], kind == "run")
			}
		}
	}
}

// checkTapes holds the tapes against the steps they were made from: the same
// sizes in the same order.
func checkTapes(t *testing.T, s *Stream, prologue, steady *Step, run bool) {
	t.Helper()
	from := []*Step{steady}
	if run {
		from = []*Step{prologue, steady}
	}
	if len(s.Tapes) != len(from) {
		t.Fatalf("%d tapes, expected %d", len(s.Tapes), len(from))
	}
	persists := 0
	for i, step := range from {
		var want []mem.Bytes // frees are negative
		crosses := step.crossing()
		for _, op := range step.Ops {
			b := step.Blocks[op.Block]
			stays := run && i == 0 && int(b.Free) == len(step.Ops)
			switch {
			case b.Pinned || b.Alloc < 0 || int(b.Free) == len(step.Ops) && !stays:
				if !op.Free && (b.Pinned || crosses[op.Block]) {
					want = append(want, b.Size) // the pool's
				}
			case op.Free:
				want = append(want, -b.Size)
			default:
				want = append(want, b.Size)
				if stays {
					persists++
				}
			}
		}
		var got []mem.Bytes
		for _, e := range s.Tapes[i].Entries {
			size := s.Slots[e.Slot()].Size
			if e.Frees() {
				size = -size
			}
			got = append(got, size)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the %v tape differs from its step", s.Tapes[i].Kind)
		}
	}
	for _, slot := range s.Slots {
		if slot.Persist {
			persists--
		}
	}
	if persists != 0 {
		t.Errorf("%d persistent blocks of the prologue have no persistent slot", persists)
	}
}

// TestMakeRunRandom plans random runs; every one must validate, and persistent
// slots must be packed together from the base.
func TestMakeRunRandom(t *testing.T) {
	rng := newRand(t)
	for n := range 150 {
		p, err := MakeRun(randomRun(rng, 1+rng.IntN(2+n), 1+rng.IntN(2+n)), Options{Descents: 30})
		if err != nil {
			t.Fatal(err)
		}
		var top mem.Offset
		var sum mem.Bytes
		for _, slot := range p.Streams[0].Slots {
			if slot.Persist {
				top, sum = max(top, slot.End()), sum+slot.Size
			}
		}
		if mem.Bytes(top) != sum {
			t.Fatalf("persistent slots of %d bytes end at %d", sum, top)
		}
		rest := Plan{Streams: []Stream{*p.Streams[0].Steady()}}
		if err := rest.Validate(); err != nil {
			t.Fatalf("what is left without the prologue: %v", err)
		}
		if r, whole := rest.Streams[0], p.Streams[0]; len(r.Tapes) != 1 || len(r.Tapes[0].Entries) != len(whole.Tapes[1].Entries) || r.Arena > whole.Arena {
			t.Fatalf("of a plan with %v tapes and %v, %v with %v is left", len(whole.Tapes), whole.Arena, len(r.Tapes), r.Arena)
		}
	}
}

// TestKindsOfStepShareTheArena: two kinds of step need no more than the larger
// one, and each has a tape on every stream.
func TestKindsOfStepShareTheArena(t *testing.T) {
	var one, two Recorder
	step := func(r *Recorder, sizes ...mem.Bytes) *Step {
		for i, size := range sizes {
			r.Alloc(uint64(i), size)
		}
		for i := range sizes {
			r.Free(uint64(i))
		}
		return r.Boundary()
	}
	large, small := []*Step{step(&one, mem.GiB, mem.MiB), step(&two, mem.MiB)}, []*Step{step(&one, mem.MiB, 3*mem.MiB)}
	p, err := MakeRun(Run{Steady: [][]*Step{large, small}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Streams[0].Arena, mem.GiB+2*mem.MiB; got != want {
		t.Errorf("the arena has %v, expected %v", got, want)
	}
	for _, s := range p.Streams {
		if len(s.Tapes) != 2 || s.Tapes[0].Kind != Steady || s.Tapes[1].Kind != Steady {
			t.Errorf("stream %d has tapes %v", s.Ordinal, s.Tapes)
		}
	}
	if n := len(p.Streams[1].Tapes[1].Entries); n != 0 {
		t.Errorf("a stream that rests in a kind of step has a tape of %d entries", n)
	}
	same := []*Step{step(&one, mem.GiB, mem.MiB-100), step(&two, mem.MiB)}
	if Signature(large) == Signature(small) || Signature(large) != Signature(same) {
		t.Error("signatures do not tell kinds of step apart")
	}
	if _, err := MakeRun(Run{Prologue: large}, Options{}); err == nil {
		t.Error("a prologue of no boundaries was accepted")
	}
}

func TestMakeUsesTheLastPlan(t *testing.T) {
	steps := observe(t, filepath.Join("..", "tests", "traces", "megatron_vpp.r0.csv.gz"))
	first, err := Make(steps[2], Options{Descents: 40})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Make(steps[3], Options{Descents: 1, Last: first})
	if err != nil {
		t.Fatal(err)
	}
	if got, limit := gap(&second.Streams[0]), gap(&first.Streams[0])+0.01; got > limit {
		t.Errorf("one warm descent leaves a gap of %.4f, expected at most %.4f", got, limit)
	}
}

func TestMakeRefuses(t *testing.T) {
	for name, s := range map[string]*Step{
		"block out of range":  {Ops: []Op{{Block: 1}}, Blocks: []Block{{Size: 512, Alloc: 0, Free: 1}}},
		"negative block":      {Ops: []Op{{Block: -1}}, Blocks: []Block{{Size: 512, Alloc: 0, Free: 1}}},
		"not rounded":         {Ops: []Op{{Block: 0}}, Blocks: []Block{{Size: 513, Alloc: 0, Free: 1}}},
		"negative size":       {Ops: []Op{{Block: 0}}, Blocks: []Block{{Size: -512, Alloc: 0, Free: 1}}},
		"absurd size":         {Ops: []Op{{Block: 0}}, Blocks: []Block{{Size: 1 << 62, Alloc: 0, Free: 1}}},
		"freed before":        {Ops: []Op{{0, true}, {0, false}}, Blocks: []Block{{Size: 512, Alloc: 1, Free: 0}}},
		"freed twice":         {Ops: []Op{{0, false}, {0, true}, {0, true}}, Blocks: []Block{{Size: 512, Alloc: 0, Free: 1}}},
		"place out of range":  {Ops: []Op{{0, false}}, Blocks: []Block{{Size: 512, Alloc: 0, Free: 2}}},
		"allocated elsewhere": {Ops: []Op{{0, false}, {0, true}}, Blocks: []Block{{Size: 512, Alloc: -1, Free: 1}}},
		"never mentioned":     {Ops: []Op{{0, false}}, Blocks: []Block{{Size: 512, Alloc: 0, Free: 1}, {Size: 512, Alloc: 0, Free: 1}}},
	} {
		if _, err := Make([]*Step{s}, Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), "stream 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := MakeRun(Run{Prologue: []*Step{nil}, Boundaries: 1, Steady: [][]*Step{{nil, {}}}}, Options{})
	if err != nil || len(p.Streams) != 2 {
		t.Errorf("streams without events: %v, %v", p, err)
	}
}
