package porttest

import (
	"cmp"
	"slices"

	"stalloc/actors"
	"stalloc/internal/mem"
)

// check compares everything with the model, which may have the lock settle first.
func (s *suite) check() {
	s.Helper()
	s.Look()
	s.Lock()
	s.Settle()
	found, wrong := make(map[mem.Addr]bool), 0
	for _, t := range s.tapes {
		if err := t.Check(); err != nil {
			s.Error(err)
		}
		for _, l := range t.Leave() {
			addr := t.base + mem.Addr(l.Slot.Offset)
			found[addr] = true
			if b := s.live[addr]; b == nil || b.pooled || b.asked != mem.Bytes(l.Asked) {
				if wrong++; wrong <= 3 {
					s.Errorf("%d bytes live at %#x of a tape, the model has %+v", l.Asked, addr, b)
				}
			}
		}
	}
	if wrong > 3 {
		s.Errorf("and %d more", wrong-3)
	}
	events, lost := s.Observed(nil)
	s.Unlock()
	var load mem.Bytes
	for addr, b := range s.live {
		load += mem.Round(b.asked)
		if !b.pooled && !found[addr] {
			s.Errorf("the block at %#x lives on no tape", addr)
		}
	}
	if got := s.Load() - s.before; got != load {
		s.Errorf("the load is %v, want %v", got, load)
	}
	if lost {
		s.Error("events were lost")
	}
	s.compare(events)
	if _, unknown := s.Pooled(); unknown > 0 {
		s.Errorf("%d frees of live blocks were of no block", unknown)
	}
	if s.Failed() {
		s.FailNow()
	}
}

// compare holds the events to the model's, but for the order of those that were
// announced, and for the sizes of frees.
func (s *suite) compare(got []actors.Event) {
	s.Helper()
	want := slices.Clone(s.events)
	s.events = nil
	got = slices.Clone(got)
	for i := range got {
		if got[i].Kind == actors.EventFree {
			got[i].Size = 0
		}
	}
	for _, events := range [][]actors.Event{got, want} {
		slices.SortFunc(events, func(a, b actors.Event) int {
			return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Size, b.Size))
		})
	}
	if !slices.Equal(got, want) {
		first := 0
		for first < min(len(got), len(want)) && got[first] == want[first] {
			first++
		}
		s.Errorf("observed %d events, want %d; sorted by address, the first that differ are %+v and %+v", len(got), len(want),
			got[first:min(first+1, len(got))], want[first:min(first+1, len(want))])
	}
}

// end frees what lives, drops the tapes and expects nothing to be left.
func (s *suite) end() {
	s.Helper()
	for addr := range s.live {
		s.free(addr)
	}
	s.check()
	if s.now != nil {
		s.Lock()
		s.Serve(nil, nil)
		s.Unlock()
		s.now = nil
	}
	s.dropEmpty()
	if len(s.tapes) > 0 {
		s.Errorf("%d tapes hold blocks at the end", len(s.tapes))
	}
}
