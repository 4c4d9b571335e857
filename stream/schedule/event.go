package schedule

// An Event is one line of the log of a device: what happened to which block, in the order
// in which it happened. C writes it as well, so that it has the same layout there
// (struct stalloc_event): two words; a test of the hosts would tell (actors/host/hosttest).
type Event struct {
	Addr uint64
	Info uint64 // size in units, the stream's ordinal (16 bits), the kind (8 bits)
}

// EventKind says what happened to a block.
type EventKind uint8

const (
	EventHit  EventKind = 1 + iota // it was allocated at its planned offset
	EventMiss                      // it was allocated elsewhere
	EventFree                      // it was freed, and its bytes are free
	EventLate                      // it was freed, and other streams may still use its bytes
	EventDone                      // after EventLate: their work is done, its bytes are free
	EventTrim                      // of no block: the program called empty_cache
)

// EventOf returns the event of a block of size units that a stream has.
func EventOf(kind EventKind, addr, size uint64, stream uint16) Event {
	return Event{Addr: addr, Info: size<<24 | uint64(stream)<<8 | uint64(kind)}
}

// Size returns the block's size in units.
func (e Event) Size() uint64 { return e.Info >> 24 }

// Stream returns the ordinal of the stream.
func (e Event) Stream() uint16 { return uint16(e.Info >> 8) }

// Kind returns what happened.
func (e Event) Kind() EventKind { return EventKind(e.Info) }
