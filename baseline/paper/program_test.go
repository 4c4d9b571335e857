package paper

import (
	"fmt"
	"strings"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// program writes a recording: a request at a time.
type program struct {
	tr   trace.Trace
	next int64
}

func (p *program) mark(text string) {
	p.tr.Events = append(p.tr.Events, trace.Event{Kind: trace.Mark, Mark: text})
}

func (p *program) alloc(size mem.Bytes) int64 { return p.on(size, 0) }

func (p *program) on(size mem.Bytes, stream mem.StreamID) int64 {
	p.next++
	p.tr.Events = append(p.tr.Events, trace.Event{Kind: trace.Alloc, ID: p.next, Size: size,
		Stream: stream})
	return p.next
}

func (p *program) free(ids ...int64) {
	for _, id := range ids {
		p.tr.Events = append(p.tr.Events, trace.Event{Kind: trace.FreeRequested, ID: id},
			trace.Event{Kind: trace.FreeCompleted, ID: id})
	}
}

// training is steps of four layers, whose gradients live into the next step. extra asks for
// something unexpected at the beginning of a step.
func training(steps int, extra func(p *program, step int)) *trace.Trace {
	return trainingLate(steps, -1, extra)
}

// trainingLate has the gradients live longer into one of the steps.
func trainingLate(steps, late int, extra func(p *program, step int)) *trace.Trace {
	p := &program{tr: trace.Trace{Name: "training"}}
	p.alloc(8 << 20) // weights
	p.alloc(4)
	var gradients []int64
	for step := range steps {
		p.mark(fmt.Sprint("step ", step))
		extra(p, step)
		if step != late {
			p.free(gradients...)
		}
		before := gradients
		gradients = nil
		var kept []int64
		for layer := range mem.Bytes(4) {
			work := p.alloc(3<<20 + layer<<10)
			kept = append(kept, p.alloc(5<<20+layer<<12))
			p.free(work)
		}
		if step == late {
			p.free(before...)
		}
		for layer := 3; layer >= 0; layer-- {
			work := p.alloc(7 << 20)
			p.free(kept[layer])
			gradients = append(gradients, p.alloc(2<<20))
			p.free(work)
		}
		if step == 0 {
			p.alloc(16 << 20) // states of the optimizer
		}
	}
	p.mark("end")
	p.free(p.alloc(11 << 20)) // a checksum
	return &p.tr
}

func nothing(*program, int) {}

// run replays a recording, and returns hits and misses by step, the set-up's with the first.
func run(t *testing.T, tr *trace.Trace, a *Allocator) (hits, misses []int64) {
	t.Helper()
	blocks := map[int64]baseline.Block{}
	begun, ended := false, trace.FreeCompleted
	if a.plan.ignoring {
		ended = trace.FreeRequested
	}
	var wasHits, wasMisses int64
	for i := range tr.Events {
		var err error
		switch e := &tr.Events[i]; e.Kind {
		case trace.Mark:
			if begun && (e.Mark == "end" || strings.HasPrefix(e.Mark, "step ")) {
				h, m := a.Served()
				hits, misses = append(hits, h-wasHits), append(misses, m-wasMisses)
				wasHits, wasMisses = h, m
				a.Step()
			}
			if e.Mark == "end" {
				a.Leave()
			}
			begun = begun || strings.HasPrefix(e.Mark, "step ")
		case trace.Alloc:
			blocks[e.ID], err = a.Malloc(e.Size, e.Stream)
		case ended:
			if b := blocks[e.ID]; b != baseline.None {
				err = a.Free(b)
			}
		case trace.EmptyCache:
			a.EmptyCache()
		}
		if err == nil && i%(len(tr.Events)/50+1) == 0 {
			err = a.Check()
		}
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	return hits, misses
}

func planOf(t *testing.T, tr *trace.Trace) *Plan {
	t.Helper()
	profile, err := Read(tr, false)
	if err != nil {
		t.Fatal(err)
	}
	return profile.Plan()
}

func newAllocator(t *testing.T, o baseline.Options, plan *Plan) *Allocator {
	t.Helper()
	a, err := New(o, plan)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRepeats: where steps repeat, what is reserved is the load, to a few handles.
func TestRepeats(t *testing.T) {
	tr := training(6, nothing)
	a := newAllocator(t, baseline.Options{}, planOf(t, tr))
	_, misses := run(t, tr, a)
	for step, n := range misses {
		if n > 0 {
			t.Errorf("%d requests of step %d miss", n, step)
		}
	}
	most := mem.RoundUp(tr.PeakLoad(), mem.HandleSize) + mem.HandleSize // cells
	if got := a.Stats().PeakReserved; got > most {
		t.Errorf("%v are reserved for %v, expected %v at most", got, tr.PeakLoad(), most)
	}
	if calls := a.Calls(); calls.Total() != 2 {
		t.Errorf("%d driver calls, expected one for the region and one for cells", calls.Total())
	}
}

// TestCrossing: a block that lives into the next step has one place in all of them, and none other
// has it before the one before is free, however late that was in the profile.
func TestCrossing(t *testing.T) {
	for late := range 3 {
		tr := trainingLate(6, late, nothing)
		profile, err := Read(tr, false)
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := profile.place(nil)
		_, misses := run(t, tr, newAllocator(t, baseline.Options{}, plan))
		for step, n := range misses {
			if n > 0 {
				t.Errorf("late in step %d: %d requests of step %d miss", late, n, step)
			}
		}
		places := map[mem.Offset]int{}
		for _, entries := range [][]entry{plan.head, plan.step} {
			for _, e := range entries {
				if e.size == 2<<20 {
					places[e.at]++
				}
			}
		}
		if len(places) != 4 {
			t.Errorf("late in step %d: gradients have the places %v, expected four", late, places)
		}
	}
}

// TestLasting: what outlives the profile lies below all else.
func TestLasting(t *testing.T) {
	plan := planOf(t, training(4, nothing))
	lasting := mem.Offset(0)
	for _, e := range plan.head {
		if e.size == 8<<20 || e.size == 16<<20 {
			lasting = max(lasting, e.at+mem.Offset(e.size))
		}
	}
	for _, e := range plan.step {
		if e.at < lasting {
			t.Errorf("%v lie at %d, and what lasts ends at %d", e.size, e.at, lasting)
		}
	}
	if lasting != 24<<20 {
		t.Errorf("what lasts ends at %d, expected 24 MiB", lasting)
	}
}

// TestUnexpected: a request too many, and all later ones of its step miss, and none of the next.
func TestUnexpected(t *testing.T) {
	tr := training(6, func(p *program, step int) {
		if step == 4 {
			p.free(p.alloc(9 << 20))
		}
	})
	_, misses := run(t, tr, newAllocator(t, baseline.Options{}, planOf(t, tr)))
	if misses[3] > 0 || misses[4] < 12 || misses[5] > 0 {
		t.Errorf("misses by step: %v, expected only step 4 to have some, nearly all of it", misses)
	}
}

// TestRefuses: what does not repeat has no plan, and the allocator is then the native one.
func TestRefuses(t *testing.T) {
	tr := training(6, func(p *program, step int) {
		for range step {
			p.free(p.alloc(mem.Bytes(30+7*step) << 20))
		}
	})
	plan := planOf(t, tr)
	if plan != nil {
		t.Fatalf("a plan of %v", plan.Region)
	}
	a, native := newAllocator(t, baseline.Options{}, plan), baseline.NewNative(baseline.Options{})
	run(t, tr, a)
	if hits, misses := a.Served(); hits+misses > 0 {
		t.Errorf("%d hits and %d misses without a plan", hits, misses)
	}
	b, err := native.Malloc(1, 0)
	if err == nil {
		_, err = native.Addr(b)
	}
	if err != nil || a.Calls().Total() < 2 {
		t.Error(err, a.Calls())
	}
}

// TestTooShort: a profile takes three steps, and says so.
func TestTooShort(t *testing.T) {
	_, err := Read(training(2, nothing), false)
	if err == nil || !strings.Contains(err.Error(), "training has 2 marked steps") {
		t.Errorf("%v", err)
	}
}
