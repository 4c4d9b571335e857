package plan

import "fmt"

// addLearned appends the slots and the tape of a steady step that is not the same
// every time, from several that were learned, the latest last. Two or three are enough,
// one is too few.
//
// The tape has the structure of the last step. A position whose size was the same
// in all of them gets an exact slot. A position whose size varies stays on the
// tape without a slot, with its free, so that its block can be placed as a guest
// in a hole of the arena that is idle until then; with envelope it gets a slot of the
// largest size instead.
func (m *maker) addLearned(tape Tape, learned []*Step, envelope bool) error {
	if len(learned) == 0 {
		m.tapes = append(m.tapes, tape)
		return nil
	}
	for k, s := range learned {
		if err := s.check(); err != nil {
			return fmt.Errorf("step %d of %d: %w", k+1, len(learned), err)
		}
	}
	s := learned[len(learned)-1]
	seen := classify(learned)
	crosses := s.crossing()
	slotOf := make([]int32, len(s.Blocks))
	for i := range slotOf {
		slotOf[i] = -1
	}
	for _, op := range s.Ops {
		block, was := s.Blocks[op.Block], seen[op.Block]
		slot := slotOf[op.Block]
		switch {
		case op.Free && slot >= 0 && !block.Pinned:
			if !m.slots[slot].Pool {
				m.lives[slot].Upper = m.now
			}
			tape.Entries = append(tape.Entries, ^Entry(slot))
		case op.Free:
		case s.transient(block) || block.Pinned || crosses[op.Block]:
			made := Slot{Size: was.most, Spread: was.most - was.least}
			once := len(was.sizes) == 1 && len(learned) > 1 // nothing is known of its size
			made.Pool = !s.transient(block) || !envelope && (once || !was.fixed())
			slotOf[op.Block] = int32(len(m.slots))
			tape.Entries = append(tape.Entries, Entry(len(m.slots)))
			life := Buffer{Lower: m.now, Upper: m.now}
			if !made.Pool {
				life.Size = made.Size
			}
			m.slots = append(m.slots, made)
			m.lives = append(m.lives, life)
		}
		m.now++
	}
	m.now++ // the end of this tape and the start of the next are distinct
	m.tapes = append(m.tapes, tape)
	return nil
}
