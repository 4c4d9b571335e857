package plan

import (
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// TestPlanValidateRefuses breaks one rule at a time.
func TestPlanValidateRefuses(t *testing.T) {
	if err := samplePlan(t).Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string // part of the error
		damage func(p *Plan, s *Stream)
	}{
		{"ordinal", func(p *Plan, s *Stream) { p.Streams[1].Ordinal = 0 }},
		{"ordinal", func(p *Plan, s *Stream) { s.Ordinal = -1 }},
		{"arena of", func(p *Plan, s *Stream) { s.Arena++ }},
		{"arena of", func(p *Plan, s *Stream) { s.Arena = -mem.HandleSize }},
		{"outside the arena", func(p *Plan, s *Stream) { s.Arena = 0 }},
		{"weight", func(p *Plan, s *Stream) { s.Weights.Load = 1 / (s.Weights.Load * 0) }},
		{"size", func(p *Plan, s *Stream) { s.Slots[0].Size = 0 }},
		{"size", func(p *Plan, s *Stream) { s.Slots[0].Size = 1<<63 - 512 }},
		{"size", func(p *Plan, s *Stream) { s.Slots[0].Size++ }},
		{"offset", func(p *Plan, s *Stream) { s.Slots[0].Offset = -512 }},
		{"offset", func(p *Plan, s *Stream) { s.Slots[0].Offset++ }},
		{"offset", func(p *Plan, s *Stream) { s.Slots[0].Offset = 1<<63 - 512 }},
		{"makespan", func(p *Plan, s *Stream) { s.Makespan += 512 }},
		{"lower bound", func(p *Plan, s *Stream) { s.LowerBound -= 512 }},
		{"kind", func(p *Plan, s *Stream) { s.Tapes[1].Kind = Prologue }},
		{"kind", func(p *Plan, s *Stream) { s.Tapes[1].Kind = 9 }},
		{"overlaps", func(p *Plan, s *Stream) { s.Slots[1].Offset = s.Slots[0].Offset }},
		{"second time", func(p *Plan, s *Stream) { s.Tapes[0].Entries = append(s.Tapes[0].Entries, 0) }},
		{"not live", func(p *Plan, s *Stream) { s.Tapes[0].Entries = append(s.Tapes[0].Entries, ^0) }},
		{"not live", func(p *Plan, s *Stream) { s.Tapes[0].Entries[0] = ^Entry(6) }},
		{"slot 99 of", func(p *Plan, s *Stream) { s.Tapes[0].Entries[0] = 99 }},
		{"slot 99 of", func(p *Plan, s *Stream) { s.Tapes[0].Entries[0] = ^99 }},
		{"slot 2147483647 of", func(p *Plan, s *Stream) { s.Tapes[0].Entries[0] = -1 << 31 }},
		{"on no tape", func(p *Plan, s *Stream) { s.Slots = append(s.Slots, Slot{Size: 512}) }},
		{"still live", func(p *Plan, s *Stream) { s.Tapes[1].Entries = s.Tapes[1].Entries[:3] }},
		{"although it persists", func(p *Plan, s *Stream) { s.Tapes[1].Entries = append(s.Tapes[1].Entries, ^persistent(s)) }},
		{"every step", func(p *Plan, s *Stream) { s.Tapes[0] = Tape{Entries: s.Tapes[0].Entries, Kind: Steady} }},
		{"boundaries", func(p *Plan, s *Stream) { s.Tapes[0].Boundaries = 0 }},
		{"boundaries", func(p *Plan, s *Stream) { s.Tapes[0].Boundaries = -1 }},
		{"boundaries", func(p *Plan, s *Stream) { s.Tapes[1].Boundaries = 1 }},
	} {
		p := samplePlan(t)
		c.damage(p, &p.Streams[0])
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("expected an error about %q, got %v", c.want, err)
		}
	}
}

func persistent(s *Stream) Entry {
	for i, slot := range s.Slots {
		if slot.Persist {
			return Entry(i)
		}
	}
	return -1
}

// TestPlanValidateMutations moves a slot onto another that is live with it.
func TestPlanValidateMutations(t *testing.T) {
	rng := newRand(t)
	caught := 0
	for range 200 {
		var r Recorder
		b := randomBuffers(rng, 2+rng.IntN(30), 40, 60)
		for tick := range mem.Tick(41) {
			for i, x := range b {
				if x.Upper == tick {
					r.Free(uint64(i))
				}
			}
			for i, x := range b {
				if x.Lower == tick {
					r.Alloc(uint64(i), x.Size)
				}
			}
		}
		p, err := Make([]*Step{r.Boundary()}, Options{Descents: 5})
		if err != nil {
			t.Fatal(err)
		}
		s := &p.Streams[0]
		live := map[int32]bool{}
		for _, e := range s.Tapes[0].Entries[:rng.IntN(len(s.Tapes[0].Entries))] {
			if live[e.Slot()] = !e.Frees(); e.Frees() {
				delete(live, e.Slot())
			}
		}
		for slot := range live {
			for other := range live {
				if slot == other {
					continue
				}
				was := s.Slots[slot].Offset
				s.Slots[slot].Offset = s.Slots[other].Offset
				s.Makespan, s.Arena = 0, 1<<40
				for _, x := range s.Slots {
					s.Makespan = max(s.Makespan, mem.Bytes(x.End()))
				}
				if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "overlaps") {
					t.Fatalf("slots %d and %d overlap: %v", slot, other, err)
				}
				s.Slots[slot].Offset = was
				caught++
			}
		}
	}
	if caught < 200 {
		t.Errorf("only %d overlaps were made", caught)
	}
}
