package trace

import (
	"fmt"

	"stalloc/internal/mem"
)

const (
	// maxSize bounds one request: more than any device can address.
	maxSize mem.Bytes = 1 << 48
	// maxTotal bounds the sum of all rounded requests of a trace, so that no
	// sum over a trace can overflow.
	maxTotal mem.Bytes = 1 << 62
	// maxStreams bounds the streams: PyTorch has 32 a pool and a device, and what
	// serves streams is not made for thousands.
	maxStreams = 1 << 10
)

// life is where a block stands: unborn → live → leaving → gone. An id never
// goes back, which is what makes it a name.
type life uint8

const (
	unborn  life = iota
	live         // requested
	leaving      // free requested
	gone         // free completed
)

// ledger holds the life of every block of a trace and refuses events that
// cannot be.
//
// Recordings number their blocks from zero, so lives sit in a slice. The slice
// only ever grows to a small multiple of the blocks seen; ids beyond it, which
// are legal, go to a map.
type ledger struct {
	dense  []life
	sparse map[int64]life
	blocks int64
	total  mem.Bytes

	streams map[mem.StreamID]struct{}
	last    mem.StreamID // that was seen
}

func (l *ledger) get(id int64) life {
	if uint64(id) < uint64(len(l.dense)) && l.dense[id] != unborn {
		return l.dense[id]
	}
	return l.sparse[id]
}

func (l *ledger) set(id int64, to life) {
	if l.sparse[id] != unborn {
		l.sparse[id] = to
		return
	}
	if id < int64(len(l.dense)) {
		l.dense[id] = to
		return
	}
	if id < 4*l.blocks+1024 {
		for int64(len(l.dense)) <= id {
			l.dense = append(l.dense, unborn)
		}
		l.dense[id] = to
		return
	}
	if l.sparse == nil {
		l.sparse = make(map[int64]life)
	}
	l.sparse[id] = to
}

// apply moves the event's block on, or says what was wanted and what came.
// Events without a block always pass.
func (l *ledger) apply(e *Event) (want, got string) {
	if (e.Kind == Alloc || e.Kind == RecordStream) && !l.stream(e.Stream) {
		return fmt.Sprintf("at most %d streams", maxStreams), "more"
	}
	switch e.Kind {
	case Alloc:
		return l.alloc(e)
	case FreeRequested:
		if s := l.get(e.ID); s != live {
			return "the free of a live block", s.of(e.ID)
		}
		l.set(e.ID, leaving)
	case FreeCompleted:
		if s := l.get(e.ID); s != leaving {
			return "the end of a block whose free was requested", s.of(e.ID)
		}
		l.set(e.ID, gone)
	case RecordStream:
		if s := l.get(e.ID); s != live {
			return "record_stream of a live block", s.of(e.ID)
		}
	}
	return "", ""
}

// stream reports whether there is room for a stream. That of the last request has some.
func (l *ledger) stream(id mem.StreamID) bool {
	if id == l.last && l.streams != nil {
		return true
	}
	if l.streams == nil {
		l.streams = make(map[mem.StreamID]struct{})
	}
	l.streams[id], l.last = struct{}{}, id
	return len(l.streams) <= maxStreams
}

func (l *ledger) alloc(e *Event) (want, got string) {
	if s := l.get(e.ID); s != unborn {
		return "a block id that was not used before", s.of(e.ID)
	}
	if e.Size > maxSize {
		return fmt.Sprintf("a request of at most %d bytes", int64(maxSize)), fmt.Sprintf("%d",
			int64(e.Size))
	}
	if l.total > maxTotal-mem.Round(e.Size) {
		return fmt.Sprintf("requests of at most %d bytes together", int64(maxTotal)), "more"
	}
	l.total += mem.Round(e.Size)
	l.blocks++
	l.set(e.ID, live)
	return "", ""
}

// of describes the block of that life for an error message.
func (s life) of(id int64) string {
	switch s {
	case live:
		return fmt.Sprintf("block %d, which is live", id)
	case leaving:
		return fmt.Sprintf("block %d, whose free was requested before", id)
	case gone:
		return fmt.Sprintf("block %d, which was freed before", id)
	}
	return fmt.Sprintf("block %d, which was never allocated", id)
}

// negative reports a quantity that our format has no sign for.
func negative(e *Event) bool {
	return e.ID < 0 || e.Size < 0 || e.Micros < 0
}
