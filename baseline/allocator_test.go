package baseline

import (
	"errors"
	"math"
	"strings"
	"testing"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

func TestOptionsAreChecked(t *testing.T) {
	bad := func(change func(*Options)) Options {
		var o Options
		change(&o)
		return o
	}
	for want, o := range map[string]Options{
		"Capacity":    bad(func(o *Options) { o.Capacity = -1 }),
		"Limit":       bad(func(o *Options) { o.Limit = 1 << 60 }),
		"MaxSplit":    bad(func(o *Options) { o.MaxSplit = 19 * mem.MiB }),
		"Roundup[3]":  bad(func(o *Options) { o.Roundup[3] = 6 }),
		"GCThreshold": bad(func(o *Options) { o.GCThreshold = math.NaN() }),
	} {
		if _, err := New("native", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("options with a bad %s: %v", want, err)
		}
	}
	if _, err := New("jemalloc", Options{}); err == nil || !strings.Contains(err.Error(),
		"native, expandable") {
		t.Errorf("an unknown name: %v", err)
	}
	for _, name := range Names() {
		if a, err := New(name, Options{}); err != nil || a.Name() != name {
			t.Errorf("New(%q): %v", name, err)
		}
	}
}

// TestBadCalls: a wrong handle or size is an error and changes nothing.
func TestBadCalls(t *testing.T) {
	for _, name := range Names() {
		a, _ := New(name, Options{Capacity: 100 * mem.MiB})
		first, _ := a.Malloc(5*mem.MiB, 0)
		if err := a.Complete(first); !errors.Is(err, ErrNotFreed) {
			t.Errorf("%s: Complete before Free: %v", name, err)
		}
		if err := a.Free(first); err != nil {
			t.Fatal(err)
		}
		again, _ := a.Malloc(5*mem.MiB, 0)
		if again == first {
			t.Errorf("%s: a handle was used twice", name)
		}
		deferred, _ := a.Malloc(1000, 0)
		if err := errors.Join(a.Defer(deferred), a.Free(deferred)); err != nil {
			t.Fatal(err)
		}
		before := a.Stats()
		for _, b := range []Block{first, None, 12345, 1 << 40, math.MinInt64} {
			for _, err := range []error{a.Free(b), a.Complete(b), a.Defer(b),
				a.RecordStream(b, 1)} {
				if !errors.Is(err, ErrUnknownBlock) {
					t.Errorf("%s: use of block %d: %v", name, b, err)
				}
			}
			if _, err := a.Addr(b); !errors.Is(err, ErrUnknownBlock) {
				t.Errorf("%s: address of block %d: %v", name, b, err)
			}
		}
		for _, err := range []error{a.Free(deferred), a.Defer(deferred),
			a.RecordStream(deferred, 1)} {
			if !errors.Is(err, ErrUnknownBlock) {
				t.Errorf("%s: use of a waiting block: %v", name, err)
			}
		}
		if b, err := a.Malloc(0, 0); b != None || err != nil {
			t.Errorf("%s: Malloc(0) = %d, %v", name, b, err)
		}
		for _, size := range []mem.Bytes{-1, maxRequest + 1, math.MaxInt64} {
			if _, err := a.Malloc(size, 0); err == nil || errors.Is(err, ErrOutOfMemory) {
				t.Errorf("%s: Malloc(%d): %v", name, size, err)
			}
		}
		if a.Stats() != before {
			t.Errorf("%s: a refused call changed the statistics", name)
		}
		if err := a.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestOutOfMemory: the error says what was asked for and what there is, also
// for requests beyond any device.
func TestOutOfMemory(t *testing.T) {
	for _, name := range Names() {
		a, _ := New(name, Options{Capacity: 100 * mem.MiB})
		for _, size := range []mem.Bytes{101 * mem.MiB, 100 * mem.GiB, maxRequest} {
			_, err := a.Malloc(size, 3)
			var oom *OutOfMemory
			if !errors.Is(err, ErrOutOfMemory) || !errors.As(err, &oom) || oom.Asked != size ||
				oom.Stream != 3 {
				t.Fatalf("%s: Malloc(%d): %v", name, size, err)
			}
			if !strings.Contains(err.Error(), "100.00 MiB") {
				t.Errorf("%s: %q does not name the capacity", name, err)
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
		}
		if s := a.Stats(); s.OOMs != 3 || s.Retries != 3 || s.Reserved != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestDeferredFree: the memory of a deferred free serves nothing before the
// Malloc after Complete, and EmptyCache waits for it.
func TestDeferredFree(t *testing.T) {
	for _, name := range Names() {
		a, _ := New(name, Options{})
		b, _ := a.Malloc(40*mem.MiB, 0)
		at, _ := a.Addr(b)
		if err := errors.Join(a.Defer(b), a.Free(b)); err != nil {
			t.Fatal(err)
		}
		if s := a.Stats(); s.Allocated != 0 || s.Active != 40*mem.MiB {
			t.Errorf("%s: while waiting: %+v", name, s)
		}
		other, _ := a.Malloc(40*mem.MiB, 0)
		if got, _ := a.Addr(other); got == at {
			t.Errorf("%s: waiting memory was handed out", name)
		}
		if err := a.Complete(b); err != nil {
			t.Fatal(err)
		}
		third, _ := a.Malloc(40*mem.MiB, 0)
		if got, _ := a.Addr(third); got != at {
			t.Errorf("%s: at %v after completion, want %v", name, got, at)
		}
		if err := errors.Join(a.Defer(third), a.Free(third), a.Free(other)); err != nil {
			t.Fatal(err)
		}
		a.EmptyCache()
		if s := a.Stats(); s.Active != 0 || s.Reserved != 0 {
			t.Errorf("%s: after EmptyCache: %+v", name, s)
		}
	}
}

// TestNoAllocations: once warm, serving requests allocates nothing.
func TestNoAllocations(t *testing.T) {
	for _, name := range Names() {
		a, _ := New(name, Options{})
		var blocks [64]Block
		round := func() {
			for i := range blocks {
				blocks[i], _ = a.Malloc(mem.Bytes(i*i)*7000+1, mem.StreamID(i%2))
			}
			for i := range blocks {
				j := i * 13 % len(blocks)
				if i%8 == 0 {
					_ = a.Defer(blocks[j])
					_ = a.Free(blocks[j])
					_ = a.Complete(blocks[j])
				} else {
					_ = a.Free(blocks[j])
				}
			}
		}
		for range 50 {
			round()
		}
		// The self-checks, where they are compiled in, do allocate.
		if n := testing.AllocsPerRun(20, round); n != 0 && !invariants.Enabled {
			t.Errorf("%s: %v allocations in 128 calls", name, n)
		}
	}
}

func TestCost(t *testing.T) {
	// 256 handles of 2 MiB take 6.9 ms to grant access to, in one call.
	var calls Calls
	calls.access(2*mem.MiB, 256)
	if calls.Total() != 1 || calls.Micros < 6000 || calls.Micros > 7000 {
		t.Errorf("%d calls, %v µs", calls.Total(), calls.Micros)
	}
}

// TestCallsOfOneRequest counts the driver calls of a 50 MiB request and its
// return, by hand.
func TestCallsOfOneRequest(t *testing.T) {
	for name, want := range map[string]Calls{
		"native": {Count: [CallKinds]int64{MemAlloc: 1, MemFree: 1}},
		"expandable": {Count: [CallKinds]int64{Reserve: 1, AddressFree: 1, Create: 3, Map: 3,
			SetAccess: 1, Unmap: 3, Release: 3}},
	} {
		a, _ := New(name, Options{})
		b, err := a.Malloc(50*mem.MiB, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Free(b); err != nil {
			t.Fatal(err)
		}
		a.EmptyCache()
		for k, n := range a.Calls().Count {
			if n != want.Count[k] {
				t.Errorf("%s: %d calls of %v, want %d", name, n, Call(k), want.Count[k])
			}
		}
	}
}
