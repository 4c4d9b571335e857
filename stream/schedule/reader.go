package schedule

import "iter"

// Line is one event of the log and the block that it is of.
type Line struct {
	Kind  EventKind
	Block int // its number in the order of requests; < 0: requested before the Reader began
	Event Event
}

// Reader follows the log of a device and says which block each event is of. The zero value has
// seen no block.
type Reader struct {
	live map[uint64]living // by address
	next int
}

type living struct {
	block int
	late  bool // it was freed, and other streams may still use its bytes
}

// Blocks returns how many blocks were requested so far.
func (r *Reader) Blocks() int { return r.next }

// Read yields what happened. If the address of a block that is freed late is allocated again, the
// other streams must be done with it: its EventDone comes just before.
func (r *Reader) Read(events []Event) iter.Seq2[int, Line] {
	if r.live == nil {
		r.live = map[uint64]living{}
	}
	return func(yield func(int, Line) bool) {
		for i, e := range events {
			x, known := r.live[e.Addr]
			l := Line{e.Kind(), x.block, e}
			if !known {
				l.Block = -1
			}
			switch l.Kind {
			case EventHit, EventMiss:
				if x.late && !yield(i, Line{EventDone, x.block, e}) {
					return
				}
				l.Block, r.live[e.Addr] = r.next, living{block: r.next}
				r.next++
			case EventFree:
				delete(r.live, e.Addr)
			case EventLate:
				if known {
					r.live[e.Addr] = living{x.block, true}
				}
			case EventDone:
				if !x.late { // it was yielded when its address was allocated again
					continue
				}
				delete(r.live, e.Addr)
			}
			if !yield(i, l) {
				return
			}
		}
	}
}
