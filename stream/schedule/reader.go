package schedule

import "iter"

// Outcome says what happened to a block.
type Outcome uint8

const (
	Requested Outcome = 1 + iota
	Freed             // and its bytes are free
	Released          // it was freed, and other streams may still use its bytes
	Done              // after Released: their work is done
	Trimmed           // of no block: the program called empty_cache
)

// Line is one event of the log and the block that it is of.
type Line struct {
	What  Outcome
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
	block    int
	released bool
}

// Blocks returns how many blocks were requested so far.
func (r *Reader) Blocks() int { return r.next }

// Read yields what happened. If the address of a released block is allocated again, the other
// streams must be done with it: its Done comes just before.
func (r *Reader) Read(events []Event) iter.Seq2[int, Line] {
	if r.live == nil {
		r.live = map[uint64]living{}
	}
	return func(yield func(int, Line) bool) {
		for i, e := range events {
			x, known := r.live[e.Addr]
			b := x.block
			if !known {
				b = -1
			}
			more := true
			switch e.Kind() {
			case EventHit, EventMiss:
				if x.released {
					more = yield(i, Line{Done, b, e})
				}
				r.live[e.Addr] = living{block: r.next}
				more = more && yield(i, Line{Requested, r.next, e})
				r.next++
			case EventFree:
				delete(r.live, e.Addr)
				more = yield(i, Line{Freed, b, e})
			case EventLate:
				if known {
					r.live[e.Addr] = living{b, true}
				}
				more = yield(i, Line{Released, b, e})
			case EventDone:
				if x.released { // otherwise its Done was yielded when its address was reused
					delete(r.live, e.Addr)
					more = yield(i, Line{Done, b, e})
				}
			case EventTrim:
				more = yield(i, Line{Trimmed, -1, e})
			}
			if !more {
				return
			}
		}
	}
}
