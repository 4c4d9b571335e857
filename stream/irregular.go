package stream

// A tape of an irregular step expects positions rather than sizes: this place of
// the step makes a request here and frees it there, and how large it is may vary.
// Positions of fixed size have slots. The others are on the tape without one:
// the tape tells how long the block will live, and the pool, or a hole of the
// arena that is idle so long, serves it (see Guests).

// varying is the Size of an allocation entry that no request can equal, so that
// the quick case leaves every request at that place to Go.
const varying = 1

// The structure of a step is a row of tokens: an allocation is one, a free is one
// together with its depth, the number of blocks live at that moment that were
// allocated later. Sizes are left out: they change, and common ones say nothing.
const (
	tokenAlloc = 0
	maxDepth   = 24 // deeper down, the depth changes with everything above
)

func tokenFree(depth int) uint8 { return uint8(1 + min(depth, maxDepth)) }

// shape is the structure of one order.
type shape struct {
	tokens []uint8  // by entry
	alloc  []uint32 // by slot: the entry of its allocation, None if not here
	free   []uint32 // by slot: the entry of its free, None if it has none here
}

func shapeOf(entries []Entry, slots int, tracked func(slot uint32) bool) shape {
	s := shape{tokens: make([]uint8, len(entries)), alloc: make([]uint32, slots), free: make([]uint32, slots)}
	for i := range slots {
		s.alloc[i], s.free[i] = None, None
	}
	var l lives
	l.grow(slots)
	for at := range entries {
		e := &entries[at]
		switch {
		case e.Slot == None:
		case e.Size != 0:
			s.alloc[e.Slot] = uint32(at)
			if tracked(e.Slot) {
				l.push(e.Slot)
			}
		default:
			s.free[e.Slot] = uint32(at)
			s.tokens[at] = tokenFree(l.depth(e.Slot))
			l.drop(e.Slot)
		}
	}
	return s
}

// lives keeps the live positions in the order of their allocation.
type lives struct {
	newer, older []uint32 // by slot; None at the ends
	in           []bool   // by slot
	newest       uint32
}

func (l *lives) grow(slots int) {
	l.newer, l.older, l.in = make([]uint32, slots), make([]uint32, slots), make([]bool, slots)
	l.newest = None
}

func (l *lives) clear() {
	for at := l.newest; at != None; at = l.older[at] {
		l.in[at] = false
	}
	l.newest = None
}

func (l *lives) push(slot uint32) {
	if l.in[slot] {
		return
	}
	l.in[slot] = true
	l.newer[slot], l.older[slot] = None, l.newest
	if l.newest != None {
		l.newer[l.newest] = slot
	}
	l.newest = slot
}

func (l *lives) drop(slot uint32) {
	if !l.in[slot] {
		return
	}
	l.in[slot] = false
	older, newer := l.older[slot], l.newer[slot]
	if older != None {
		l.newer[older] = newer
	}
	if newer != None {
		l.older[newer] = older
	} else {
		l.newest = older
	}
}

// depth returns how many live positions are newer, at most maxDepth.
func (l *lives) depth(slot uint32) int {
	d := 0
	for at := l.newest; at != slot && at != None && d < maxDepth; at = l.older[at] {
		d++
	}
	return d
}
