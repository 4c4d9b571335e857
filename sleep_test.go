package stalloc_test

import (
	"testing"

	"stalloc"
)

// TestSleep: what sleeps is given back and refused, and wakes where it was.
func TestSleep(t *testing.T) {
	a := open(t, stalloc.Options{Planning: stalloc.PlanNever})
	malloc(t, a, 0, 5*stalloc.MiB)
	weights, err := a.MallocIn("go weights", 0, 7*stalloc.MiB)
	must(t, err)
	before := a.Stats()
	must(t, a.Pause(stalloc.BackupDiscard, "go weights"))
	s := a.Stats()
	if s.Asleep < 8*stalloc.MiB || s.Reserved != before.Reserved-s.Asleep || s.Backup != 0 ||
		s.Allocated != before.Allocated {
		t.Errorf("asleep %+v, before %+v", s, before)
	}
	_, err = a.MallocIn("go weights", 0, 1)
	is(t, err, stalloc.ErrAsleep)
	must(t, a.Free(malloc(t, a, 0, stalloc.MiB)), a.Free(weights))
	must(t, a.Pause(stalloc.BackupDiscard))
	_, err = a.Malloc(0, 1)
	is(t, err, stalloc.ErrAsleep)
	must(t, a.Resume("go weights"), a.Resume(), a.Check())
	if s = a.Stats(); s.Reserved != before.Reserved || s.Asleep != 0 {
		t.Errorf("awake %+v, before %+v", s, before)
	}
}

// TestSleepRefused: bad input, contents that a device does not have, and an allocator that is
// closed.
func TestSleepRefused(t *testing.T) {
	a := open(t, stalloc.Options{})
	malloc(t, a, 0, stalloc.MiB)
	is(t, a.Pause(stalloc.BackupDiscard, "nobody's"), stalloc.ErrNoRegion, "nobody's", "known are")
	is(t, a.Resume("nobody's"), stalloc.ErrNoRegion)
	_, err := a.MallocIn("", 0, 1)
	is(t, err, stalloc.ErrNoRegion, "not empty")
	// the simulated device has no bytes
	for _, backup := range []stalloc.Backup{stalloc.BackupHost, 9} {
		if err := a.Pause(backup); err == nil || a.Stats().Asleep != 0 {
			t.Errorf("backup %d: %v, and %v sleeps", backup, err, a.Stats().Asleep)
		}
	}
	must(t, a.Close())
	is(t, a.Pause(stalloc.BackupDiscard), stalloc.ErrClosed)
	is(t, a.Resume(), stalloc.ErrClosed)
}

// TestAwake: a region that is not in use lends its memory, and has it again in its next use.
func TestAwake(t *testing.T) {
	a := open(t, stalloc.Options{Planning: stalloc.PlanNever})
	states, err := a.MallocIn("go states", 0, 512*stalloc.MiB)
	must(t, err, a.BeginAwake("go states", 0), a.BeginAwake("go states", 1))
	must(t, a.EndAwake("go states", 1, false), a.EndAwake("go states", 0, true))
	_, err = a.MallocIn("go states", 0, 1)
	if err == nil {
		t.Error("a region that is not in use serves requests")
	}
	other := malloc(t, a, 0, 768*stalloc.MiB)
	s := a.Stats()
	if s.Asleep < 256*stalloc.MiB || s.Backup < s.Asleep || s.Reserved > stalloc.GiB {
		t.Errorf("lent: %+v", s)
	}
	is(t, a.BeginAwake("go states", 0), stalloc.ErrOutOfMemory, "stays on the host")
	must(t, a.Free(other), a.Prefetch("go states"), a.BeginAwake("go states", 0))
	if s = a.Stats(); s.Asleep != 0 || s.Allocated != 512*stalloc.MiB {
		t.Errorf("in use: %+v", s)
	}
	_, err = a.MallocIn("go states", 0, 1)
	must(t, err, a.Free(states), a.Check())
}

// TestAwakeRefused: a name of no region, and an allocator that is closed.
func TestAwakeRefused(t *testing.T) {
	a := open(t, stalloc.Options{})
	_, err := a.MallocIn("go states", 0, stalloc.MiB)
	must(t, err)
	each := func(tag string, want error) {
		t.Helper()
		is(t, a.BeginAwake(tag, 0), want)
		is(t, a.EndAwake(tag, 0, true), want)
		is(t, a.Prefetch(tag), want)
	}
	each("nobody's", stalloc.ErrNoRegion)
	must(t, a.Close())
	each("go states", stalloc.ErrClosed)
}
