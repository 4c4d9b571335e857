package stream

// A tape of an irregular step expects positions rather than sizes: this place of
// the step makes a request here and frees it there, and how large it is may vary.
// Positions of fixed size have slots. The others are on the tape without one:
// the tape tells how long the block will live, and the pool, or a hole of the
// arena that is idle so long, serves it (see Guests).

// varying is the Size of an allocation entry that no request can equal, so that
// the quick case leaves every request at that place to Go.
const varying = 2

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
	rigid  []bool   // by slot: it lies in a run of rigidRun positions of fixed size
}

// rigidRun is how many positions of fixed size in a row make a part of the step
// regular: a request of another size there is one that the tape does not have,
// while elsewhere it may well be this position's, whose size varied for once.
const rigidRun = 10

func shapeOf(l *Layout, entries []Entry) shape {
	slots := len(l.slots)
	s := shape{tokens: make([]uint8, len(entries)), alloc: make([]uint32, slots), free: make([]uint32, slots), rigid: make([]bool, slots)}
	for i := range slots {
		s.alloc[i], s.free[i] = None, None
	}
	var live lives
	live.grow(slots)
	var run []uint32
	varies := false
	for at := range entries {
		e := &entries[at]
		switch {
		case e.Slot == None:
		case e.Size != 0:
			s.alloc[e.Slot] = uint32(at)
			if l.places[e.Slot] != None {
				live.push(e.Slot)
			}
			if run = append(run, e.Slot); l.slots[e.Slot].Spread != 0 || l.slots[e.Slot].Pool && l.places[e.Slot] != None {
				run = run[:0]
				varies = true
			} else if len(run) >= rigidRun {
				for _, slot := range run[len(run)-rigidRun:] {
					s.rigid[slot] = true
				}
			}
		default:
			s.free[e.Slot] = uint32(at)
			s.tokens[at] = tokenFree(live.depth(e.Slot))
			if live.in[e.Slot] {
				live.drop(e.Slot)
			}
		}
	}
	for i := range s.rigid {
		s.rigid[i] = s.rigid[i] || !varies // a step without positions that vary is regular as a whole
	}
	return s
}

// lives keeps the live blocks in the order of their allocation, those that were
// matched to no position as well: depths count them all, so that a wrong match
// does not falsify what is seen afterwards. A node below the number of slots
// stands for the block of that slot's position; the nodes behind are for blocks
// without a position, and for a second block of one.
type lives struct {
	newer, older []uint32 // by node; None at the ends
	in           []bool   // by node
	of           []uint32 // by node: the slot of its position, None
	newest       uint32
	slots        int
	unused       []uint32 // nodes beyond the slots
	born         []uint32 // by node: the number of its allocation, so that tickets are never taken for each other
	count        uint32
}

func (l *lives) grow(slots int) {
	l.newer, l.older, l.in = make([]uint32, slots), make([]uint32, slots), make([]bool, slots)
	l.of, l.born = make([]uint32, slots), make([]uint32, slots)
	for i := range l.of {
		l.of[i] = uint32(i)
	}
	l.newest, l.slots = None, slots
}

func (l *lives) clear() {
	for at := l.newest; at != None; at = l.older[at] {
		l.in[at] = false
	}
	l.newest = None
	l.unused = l.unused[:0]
	for node := len(l.in) - 1; node >= l.slots; node-- {
		l.unused = append(l.unused, uint32(node))
	}
}

// push makes the newest block one at a position, or at none, and returns its node.
func (l *lives) push(slot uint32) uint32 {
	node := slot
	if slot == None || l.in[slot] {
		if len(l.unused) == 0 {
			l.unused = append(l.unused, uint32(len(l.in)))
			l.newer, l.older, l.in = append(l.newer, 0), append(l.older, 0), append(l.in, false)
			l.of, l.born = append(l.of, None), append(l.born, 0)
		}
		node = l.unused[len(l.unused)-1]
		l.unused = l.unused[:len(l.unused)-1]
		l.of[node] = slot
	}
	l.count++
	l.born[node] = l.count
	l.in[node] = true
	l.newer[node], l.older[node] = None, l.newest
	if l.newest != None {
		l.newer[l.newest] = node
	}
	l.newest = node
	return node
}

func (l *lives) drop(node uint32) {
	l.in[node] = false
	older, newer := l.older[node], l.newer[node]
	if older != None {
		l.newer[older] = newer
	}
	if newer != None {
		l.older[newer] = older
	} else {
		l.newest = older
	}
	if int(node) >= l.slots {
		l.unused = append(l.unused, node)
	}
}

// depth returns how many live blocks are newer, at most maxDepth.
func (l *lives) depth(node uint32) int {
	d := 0
	for at := l.newest; at != node && at != None && d < maxDepth; at = l.older[at] {
		d++
	}
	return d
}
