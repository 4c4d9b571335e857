package schedule

import "iter"

// Outcome says what became of a block.
type Outcome uint8

const (
	Requested Outcome = 1 + iota
	Freed               // and its bytes are free
	Released            // it was freed, and other streams may still use its bytes
	Done                // their work has passed: after Released
	Trimmed             // of no block: the program had idle memory given back
)

// Line is one line of the log, as a Reader tells it.
type Line struct {
	What  Outcome
	Block int // its number, in the order of requests; < 0: it was requested before the Reader began
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

// Read yields what happened. A block whose address is handed out anew while it still waits for
// other streams has been waited for: its Done comes just before.
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
				if x.released { // else its address was handed out anew, and Done told then
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
