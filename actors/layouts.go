package actors

import (
	"cmp"
	"slices"
	"sync"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// Laying out a plan takes far longer than a program may wait at a step boundary, and a
// tape is made from a layout quickly. So plans are laid out beside the program: by the
// planner, which judges them, while an earlier run's is read, and while an arena is mapped
// ahead (prepare.go). The layouts are kept, because a plan is laid over its arena again
// after every step that was lost.

// ground is what a plan is laid out above.
type ground struct {
	cut   int           // the tapes of the plan that are over
	shift mem.Bytes     // where its first slot may be
	kept  []stream.Slot // what persists in the arena below, by offset
}

func (g *ground) same(other *ground) bool {
	return g.cut == other.cut && g.shift == other.shift && slices.Equal(g.kept, other.kept)
}

// layouts are those made lately.
type layouts struct {
	mu   sync.Mutex
	list []*layout // the last used one first
	most int       // plans served at once
}

type layout struct {
	part   *plan.Stream
	ground ground
	once   sync.Once
	made   *stream.Layout
	err    error
}

// spareLayouts are kept beside one for each stream: of a plan on trial, of what the stream
// begins with.
const spareLayouts = 4

// of returns the layout of a stream's plan. The caller makes it, if nobody has; who asks
// meanwhile waits.
func (s *layouts) of(part *plan.Stream, g ground) (*stream.Layout, error) {
	l := s.find(part, &g, true)
	l.once.Do(func() { l.made, l.err = layOut(part, &g) })
	return l.made, l.err
}

// has reports whether somebody has asked for a layout.
func (s *layouts) has(part *plan.Stream, g ground) bool { return s.find(part, &g, false) != nil }

func (s *layouts) find(part *plan.Stream, g *ground, add bool) *layout {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.list, func(l *layout) bool { return l.part == part && l.ground.same(g) })
	var l *layout
	switch {
	case at >= 0:
		l = s.list[at]
		s.list = slices.Delete(s.list, at, at+1)
	case add:
		l = &layout{part: part, ground: *g}
		s.most = max(s.most, part.Ordinal+1)
	default:
		return nil
	}
	s.list = slices.Insert(s.list, 0, l)
	if most := s.most + spareLayouts; len(s.list) > most {
		clear(s.list[most:])
		s.list = s.list[:most]
	}
	return l
}

// layOut lays a stream's plan out above what persists.
func layOut(part *plan.Stream, g *ground) (*stream.Layout, error) {
	rest := part
	if g.cut > 0 {
		rest = part.Steady()
	}
	slots, orders := shifted(rest, g.shift)
	return stream.Lay(append(slots, g.kept...), orders...)
}

// ground returns what persists in a lane's arena, which the next plan is laid above.
func (l *lane) ground(cut int) ground {
	g := ground{cut: cut}
	if l.arena == nil {
		return g
	}
	l.port.Lock()
	live := l.arena.tape.Leave()
	l.port.Unlock()
	g.shift = topOf(live)
	g.kept, _ = persistent(live)
	return g
}

// persistent takes the slots that persist out of those that live, by offset.
func persistent(live []stream.Adopted) (kept []stream.Slot, others []stream.Adopted) {
	for _, a := range live {
		if a.Flags&stream.FlagPersists != 0 {
			kept = append(kept, a.Slot)
		} else {
			others = append(others, a)
		}
	}
	slices.SortFunc(kept, func(a, b stream.Slot) int { return cmp.Compare(a.Offset, b.Offset) })
	return kept, others
}
