package plan

import (
	"errors"
	"fmt"

	"stalloc/internal/mem"
)

// Make plans a steady step. steps holds one observed step per stream, by
// ordinal; nil where a stream had no events. The blocks that begin and end
// within the step become slots of a steady tape; blocks that cross its
// boundaries are left to the pool. The error says which step is malformed.
func Make(steps []*Step, o Options) (*Plan, error) {
	return MakeRun(Run{Steady: [][]*Step{steps}}, o)
}

// Run is what a plan is made from. Steps are given by stream ordinal, nil where
// a stream had no events.
type Run struct {
	// Prologue is what happened from the first request on, set-up included, to
	// the boundary where the first steady step begins. Empty: not planned.
	Prologue []*Step
	// Boundaries is how many step boundaries the prologue saw, its last one
	// included: one or more.
	Boundaries int
	// Steady holds one step of each kind that comes again: training, evaluation,
	// another number of microbatches.
	Steady [][]*Step
	// Earlier holds further steps of the same kinds, oldest first, to learn what
	// varies: Earlier[kind] belongs to Steady[kind], and may be missing. Two or
	// three steps are enough; from one alone, sizes that vary are taken for fixed.
	Earlier [][][]*Step
	// Envelope gives positions that vary a slot of the largest size seen. Where the
	// sizes of a step move together, as with sequences of variable length, the
	// arena is then little larger than what the largest step needs anyway, and
	// every request has its slot. Where they do not, as with experts, it is up to
	// half larger, and guests are better.
	Envelope bool
	// Late is where the steps end, see Plan.
	Late Valley
}

// learned returns the steps of a kind on one stream, the latest last; none if the
// stream is not in that one.
func (r *Run) learned(kind, ordinal int) []*Step {
	last := of(r.Steady[kind], ordinal)
	if last == nil {
		return nil
	}
	var steps []*Step
	if kind < len(r.Earlier) {
		for _, earlier := range r.Earlier[kind] {
			if s := of(earlier, ordinal); s != nil {
				steps = append(steps, s)
			}
		}
	}
	return append(steps, last)
}

// MakeRun plans a run with all its kinds of step. Every stream gets the same
// tapes in the same order, the prologue's first; they share one arena per
// stream. The prologue's blocks that outlive it become persistent slots, live
// throughout every steady tape, unless they are known to end later (Block.Passes).
// Transient blocks of different tapes may lie at the same place, since two tapes
// are never served at once.
func MakeRun(run Run, o Options) (*Plan, error) {
	p := &Plan{}
	streams := len(run.Prologue)
	for _, steps := range run.Steady {
		streams = max(streams, len(steps))
	}
	if len(run.Prologue) > 0 && (run.Boundaries < 1 || run.Boundaries > maxBoundaries) {
		return nil, fmt.Errorf("plan: a prologue of %d step boundaries: expected 1 to %d", run.Boundaries, maxBoundaries)
	}
	for ordinal := range streams {
		m := maker{ordinal: ordinal}
		var err error
		if len(run.Prologue) > 0 {
			err = m.add(Tape{Kind: Prologue, Boundaries: run.Boundaries}, of(run.Prologue, ordinal))
		}
		for kind := range run.Steady {
			err = errors.Join(err, m.addLearned(Tape{Kind: Steady}, run.learned(kind, ordinal), run.Envelope))
		}
		if err != nil {
			return nil, fmt.Errorf("plan: stream %d: %w", ordinal, err)
		}
		p.Streams = append(p.Streams, m.finish(o))
	}
	p.Key, p.Late = run.key(), run.Late
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("plan: the solver's own result is invalid, please report it: %w", err)
	}
	return p, nil
}

// of returns a stream's step, nil if it had none.
func of(steps []*Step, ordinal int) *Step {
	if ordinal >= len(steps) {
		return nil
	}
	return steps[ordinal]
}

// key names a run by its first requests, steady steps by all of theirs.
func (r *Run) key() uint64 {
	if first := of(r.Prologue, 0); first != nil {
		return KeyOf(first.FirstRequests(KeyRequests))
	}
	key := uint64(keyBasis)
	for _, steps := range r.Steady {
		key = mix(key, Signature(steps))
	}
	return key
}

// maker collects the slots of one stream on one time axis, one tape behind
// another.
type maker struct {
	ordinal int
	slots   []Slot
	lives   []Buffer // of each slot
	tapes   []Tape
	now     mem.Tick
}

// add appends a step's slots, and the tape with its entries; none if s is nil.
func (m *maker) add(tape Tape, s *Step) error {
	if s == nil {
		m.tapes = append(m.tapes, tape)
		return nil
	}
	if err := s.check(); err != nil {
		return err
	}
	slotOf := make([]int32, len(s.Blocks))
	crosses := s.crossing()
	for _, op := range s.Ops {
		block := s.Blocks[op.Block]
		persist := tape.Kind == Prologue && block.Alloc >= 0 && s.outlives(block) && !block.Passes
		switch {
		case !persist && !s.transient(block):
			if !op.Free && (block.Pinned || block.Passes || crosses[op.Block]) {
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
	return nil
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
