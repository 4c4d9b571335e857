package paper

import (
	"errors"
	"strings"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
)

// small is a plan of two entries for every step.
func small() *Plan {
	all := []entry{{1 << 20, 0, 0}, {2 << 20, 0, 1 << 20}}
	return &Plan{Region: 4 << 20, Cells: 2 << 20, head: all, step: all}
}

// TestLimits: region and cells count, and an error says how the whole device stands.
func TestLimits(t *testing.T) {
	for name, o := range map[string]baseline.Options{
		"capacity": {Capacity: 5 << 20}, "limit": {Limit: 5 << 20},
	} {
		_, err := newAllocator(t, o, small()).Malloc(1<<20, 0)
		if !errors.Is(err, baseline.ErrOutOfMemory) {
			t.Errorf("%s: a region of 6 MiB in 5: %v", name, err)
		}
	}
	for name, o := range map[string]baseline.Options{
		"capacity": {Capacity: 40 << 20}, "limit": {Limit: 40 << 20},
	} {
		a := newAllocator(t, o, small())
		if _, err := a.Malloc(30<<20, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := a.Malloc(10<<20, 0)
		var full *baseline.OutOfMemory
		if !errors.As(err, &full) || full.Reserved != 36<<20 ||
			!strings.Contains(err.Error(), "36.00 MiB reserved of 40.00 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(baseline.Options{Capacity: -1}, small()); err == nil {
		t.Error("a capacity of -1 is taken")
	}
}

// TestBadCalls: handles of nothing, and calls in a wrong order, are refused by name.
func TestBadCalls(t *testing.T) {
	a := newAllocator(t, baseline.Options{}, small())
	b, err := a.Malloc(1<<20, 0)
	if err != nil || b >= baseline.None {
		t.Fatalf("block %d, %v: expected one of the region", b, err)
	}
	if err := a.Complete(b); !errors.Is(err, baseline.ErrNotFreed) {
		t.Errorf("completion of a live block: %v", err)
	}
	if err := errors.Join(a.Defer(b), a.Free(b)); err != nil {
		t.Fatal(err)
	}
	again := []error{a.Free(b), a.Defer(b), a.RecordStream(b, 1), a.Free(b - 1), a.Complete(b - 1)}
	for i, err := range again {
		if !errors.Is(err, baseline.ErrUnknownBlock) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if _, err := a.Malloc(-1, 0); err == nil || !strings.Contains(err.Error(), "-1 bytes") {
		t.Errorf("a request of -1 bytes: %v", err)
	}
	if none, err := a.Malloc(0, 0); none != baseline.None || err != nil {
		t.Errorf("a request of no bytes: %d, %v", none, err)
	}
}

// TestStreams: what another stream uses is taken until that is done, unless streams are ignored.
func TestStreams(t *testing.T) {
	for _, ignoring := range []bool{false, true} {
		plan := small()
		plan.ignoring = ignoring
		a := newAllocator(t, baseline.Options{}, plan)
		b, _ := a.Malloc(1<<20, 0)
		if err := errors.Join(a.RecordStream(b, 9), a.Free(b)); err != nil {
			t.Fatal(err)
		}
		a.Step()
		c, _ := a.Malloc(1<<20, 0)
		if inRegion := c < baseline.None; inRegion != ignoring {
			t.Errorf("ignoring streams %v: the bytes serve again: %v", ignoring, inRegion)
		}
		if a.EmptyCache(); a.Check() != nil || a.Stats().Active != 1<<20 {
			t.Errorf("%v, %v active", a.Check(), a.Stats().Active)
		}
		a.Step()
		if d, _ := a.Malloc(1<<20, 0); !ignoring && d >= baseline.None {
			t.Error("all work has passed, and the bytes do not serve again")
		}
	}
}

// TestCheck breaks one rule at a time.
func TestCheck(t *testing.T) {
	for name, damage := range map[string]func(a *Allocator){
		"overlap":  func(a *Allocator) { a.region.busy[0].to++ },
		"beyond":   func(a *Allocator) { a.plan.Region = mem.HandleSize },
		"leak":     func(a *Allocator) { a.region.busy = a.region.busy[:1] },
		"cell":     func(a *Allocator) { a.cells.give(0) },
		"cells":    func(a *Allocator) { a.cells.used++ },
		"sum":      func(a *Allocator) { a.own.Active++ },
		"capacity": func(a *Allocator) { a.opt.Capacity = 1 },
	} {
		a := newAllocator(t, baseline.Options{}, small())
		for _, size := range []mem.Bytes{1 << 20, 2 << 20, 4} {
			if _, err := a.Malloc(size, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		if damage(a); a.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
