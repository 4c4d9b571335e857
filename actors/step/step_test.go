package step

import (
	"runtime"
	"testing"
	"weak"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

const base = mem.Addr(1) << 40

// at is an event of n grains at the nth MiB of the window, on stream 1 of the log.
func at(kind schedule.EventKind, mib, grains uint64) schedule.Event {
	return schedule.EventOf(kind, uint64(base)+mib<<20, grains, 1)
}

func observed(events ...schedule.Event) *Observed {
	return &Observed{Events: events, Streams: map[uint16]mem.StreamID{1: 7},
		Order: []mem.StreamID{3, 7}}
}

// TestRead: one pass gives requests with their lifetimes by arena, the peak and the changes.
func TestRead(t *testing.T) {
	r := Reader{Keep: true}
	o := observed(
		at(schedule.EventMiss, 0, 8), // 4 KiB: large here
		at(schedule.EventHit, 1, 1),  // small
		at(schedule.EventHit, 2, 8),
		at(schedule.EventFree, 0, 8),
		at(schedule.EventLate, 2, 8), // other streams still use it
		at(schedule.EventMiss, 3, 4),
		at(schedule.EventDone, 2, 8),
	)
	s := r.Read(o, mem.KiB, base)
	if len(s.Arenas) != 2 || s.Arenas[0].Arena != (Arena{7, false}) ||
		s.Arenas[1].Arena != (Arena{7, true}) {
		t.Fatalf("arenas %+v", s.Arenas)
	}
	large, small := s.Arenas[0], s.Arenas[1]
	want := []plan.Request{
		{Size: 4 * mem.KiB, From: 0, Free: 3, Done: 3, At: 0},
		{Size: 4 * mem.KiB, From: 2, Free: 4, Done: 6, At: mem.Offset(2 * mem.MiB)},
		{Size: 2 * mem.KiB, From: 5, Free: plan.Never, Done: plan.Never,
			At: mem.Offset(3 * mem.MiB)},
	}
	for i, x := range large.Requests {
		if x != want[i] {
			t.Errorf("request %d is %+v, want %+v", i, x, want[i])
		}
	}
	if len(large.Requests) != 3 || large.Hits != 1 || large.Step.Stream != 1 || large.End != 7 {
		t.Errorf("large requests: %+v", large)
	}
	if len(small.Requests) != 1 || small.Hits != 1 || !small.Arena.Small {
		t.Errorf("small requests: %+v", small)
	}
	if s.Peak != 17*mem.Grain || len(s.Changes) != 7 || s.Changes[4].Kind != schedule.EventLate ||
		s.Changes[4].Block != 2 || s.Changes[6].Stream != 7 {
		t.Errorf("peak %v, changes %+v", s.Peak, s.Changes)
	}
}

// TestReadOn: blocks of earlier steps are known in later ones, and belong to none of their
// requests; after events were lost they are unknown.
func TestReadOn(t *testing.T) {
	for _, lost := range []bool{false, true} {
		r := Reader{Keep: true}
		r.Read(observed(at(schedule.EventMiss, 0, 8)), 0, base)
		o := observed(at(schedule.EventMiss, 1, 8), at(schedule.EventFree, 0, 8))
		o.Gap = lost
		s := r.Read(o, 0, base)
		if x := s.Arenas[0].Requests; len(x) != 1 || x[0].Free != plan.Never {
			t.Errorf("lost %v: requests %+v", lost, x)
		}
		if known := s.Changes[1].Block >= 0; known == lost || s.Peak != 8*mem.Grain {
			t.Errorf("lost %v: the free is of block %d, peak %v", lost, s.Changes[1].Block, s.Peak)
		}
	}
}

// TestHoldsNoStep: a long step does not stay in memory behind shorter ones.
func TestHoldsNoStep(t *testing.T) {
	r, long := Reader{}, []schedule.Event(nil)
	for i := range uint64(1000) {
		long = append(long, at(schedule.EventMiss, i, 8))
	}
	first := weak.Make(r.Read(observed(long...), 0, base).Arenas[0])
	r.Read(observed(at(schedule.EventMiss, 0, 8)), 0, base)
	runtime.GC()
	if first.Value() != nil {
		t.Error("it does")
	}
	runtime.KeepAlive(&r)
}
