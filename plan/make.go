package plan

import (
	"fmt"

	"stalloc/internal/mem"
)

// Make plans a steady step. steps holds one observed step per stream, by
// ordinal; nil where a stream had no events. The blocks that begin and end
// within the step become slots of a steady tape; blocks that cross its
// boundaries are left to the pool. The error says which step is malformed.
func Make(steps []*Step, o Options) (*Plan, error) {
	return MakeRun(nil, steps, o)
}

// MakeRun plans a whole run for a warm start: prologue holds what each stream
// did during set-up and the first step, steady a later step. Both tapes share
// one arena per stream: the prologue's blocks that outlive it become persistent
// slots, live throughout the steady tape, while its transient ones may lie
// where the steady tape's do, since they never coexist.
func MakeRun(prologue, steady []*Step, o Options) (*Plan, error) {
	p := &Plan{}
	for ordinal := range max(len(prologue), len(steady)) {
		m := maker{ordinal: ordinal}
		var firsts, laters *Step
		if ordinal < len(prologue) {
			firsts = prologue[ordinal]
		}
		if ordinal < len(steady) {
			laters = steady[ordinal]
		}
		for _, s := range []*Step{firsts, laters} {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("plan: stream %d: %w", ordinal, err)
			}
		}
		m.add(Prologue, firsts)
		m.add(Steady, laters)
		p.Streams = append(p.Streams, m.finish(o))
	}
	p.Key = runKey(prologue, steady)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("plan: the solver's own result is invalid, please report it: %w", err)
	}
	return p, nil
}

// runKey names a run by its first requests, a steady step by all of them.
func runKey(prologue, steady []*Step) uint64 {
	if len(prologue) > 0 && prologue[0] != nil {
		return KeyOf(prologue[0].requests(KeyRequests))
	}
	var sizes []mem.Bytes
	for _, s := range steady {
		if s != nil {
			sizes = append(sizes, s.requests(len(s.Ops))...)
		}
	}
	return KeyOf(sizes)
}

// maker collects the slots of one stream on one time axis: the prologue first,
// the steady step behind it.
type maker struct {
	ordinal int
	slots   []Slot
	lives   []Buffer // of each slot
	tapes   []Tape
	now     mem.Tick
}

func (m *maker) add(kind TapeKind, s *Step) {
	if s == nil {
		return
	}
	tape := Tape{Kind: kind}
	slotOf := make([]int32, len(s.Blocks))
	crosses := s.crossing()
	for _, op := range s.Ops {
		block := s.Blocks[op.Block]
		persist := kind == Prologue && block.Alloc >= 0 && s.outlives(block)
		switch {
		case !persist && !s.transient(block):
			if !op.Free && (block.Pinned || crosses[op.Block]) {
				tape.Entries = append(tape.Entries, Entry(len(m.slots)))
				m.slots = append(m.slots, Slot{Size: block.Size, Pool: true})
				m.lives = append(m.lives, Buffer{Lower: m.now, Upper: m.now})
			}
		case op.Free:
			slot := slotOf[op.Block]
			m.lives[slot].Upper = m.now
			tape.Entries = append(tape.Entries, ^Entry(slot))
		default:
			slot := int32(len(m.slots))
			slotOf[op.Block] = slot
			m.slots = append(m.slots, Slot{Size: block.Size, Persist: persist})
			m.lives = append(m.lives, Buffer{Lower: m.now, Size: block.Size})
			tape.Entries = append(tape.Entries, Entry(slot))
		}
		m.now++
	}
	m.now++ // the end of this tape and the start of the next are distinct
	m.tapes = append(m.tapes, tape)
}

func (m *maker) finish(o Options) Stream {
	persists := make([]bool, len(m.slots))
	for i, slot := range m.slots {
		persists[i] = slot.Persist
		if slot.Persist {
			m.lives[i].Upper = m.now
		}
	}
	if o.Last != nil && m.ordinal < len(o.Last.Streams) {
		o.Warm = &o.Last.Streams[m.ordinal].Weights
	}
	solved := solve(m.lives, persists, o)
	for i := range m.slots {
		if !m.slots[i].Pool {
			m.slots[i].Offset = solved.Offsets[i]
		}
	}
	return Stream{
		Ordinal:    m.ordinal,
		Arena:      mem.RoundUp(solved.Makespan, mem.HandleSize),
		LowerBound: solved.LowerBound,
		Makespan:   solved.Makespan,
		Slots:      m.slots,
		Tapes:      m.tapes,
		Order:      solved.Order,
		Weights:    solved.Weights,
	}
}

// maxBlock bounds a block's size, so that sums over a step cannot overflow. No
// device holds as much.
const maxBlock = 4 * mem.TiB

// check reports whether every index in s agrees with every other. A step from
// a Recorder always does; one that was built by hand or read from elsewhere
// may not.
func (s *Step) check() error {
	if s == nil {
		return nil
	}
	named := 0
	at := func(place int32, want Op) bool { return int(place) >= len(s.Ops) || s.Ops[place] == want }
	for i, b := range s.Blocks {
		if b.Size < 0 || b.Size > maxBlock || b.Size%mem.Grain != 0 {
			return fmt.Errorf("block %d has size %d: expected a multiple of %d up to %d", i, b.Size, mem.Grain, maxBlock)
		}
		if b.Alloc < -1 || b.Free <= b.Alloc || int(b.Free) > len(s.Ops) {
			return fmt.Errorf("block %d is live in [%d, %d): expected places within %d operations", i, b.Alloc, b.Free, len(s.Ops))
		}
		if b.Alloc >= 0 {
			named++
		}
		if int(b.Free) < len(s.Ops) {
			named++
		}
		if b.Alloc >= 0 && !at(b.Alloc, Op{int32(i), false}) || !at(b.Free, Op{int32(i), true}) {
			return fmt.Errorf("block %d is live in [%d, %d): the operations there are not its own", i, b.Alloc, b.Free)
		}
	}
	if named != len(s.Ops) {
		return fmt.Errorf("%d operations, of which the blocks name %d: expected each to be named once", len(s.Ops), named)
	}
	return nil
}
