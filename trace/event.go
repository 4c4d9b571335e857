package trace

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
)

// Kind says what an Event is.
type Kind uint8

const (
	// Alloc is a request: a block of Size bytes on Stream.
	Alloc Kind = iota + 1
	// FreeRequested is the program's free. The block may still be in use by
	// work that other streams have queued.
	FreeRequested
	// FreeCompleted is the end of the block's life: from here on its memory
	// may serve another request.
	FreeCompleted
	// Mark names what the program begins here: "setup", "step 3", "end".
	Mark
	// RecordStream says that the work queued on Stream uses the block too.
	RecordStream
	// EmptyCache asks the allocator to give back what it does not need.
	EmptyCache
)

var kindNames = [...]string{
	Alloc:         "alloc",
	FreeRequested: "free requested",
	FreeCompleted: "free completed",
	Mark:          "mark",
	RecordStream:  "record stream",
	EmptyCache:    "empty cache",
}

// String names the kind in words: "free requested".
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Event is one line of a trace. Fields that its kind does not name are zero.
type Event struct {
	Kind   Kind
	ID     int64        // the block; unique within the trace, addresses are not
	Size   mem.Bytes    // Alloc: bytes asked for, not rounded
	Stream mem.StreamID // Alloc: the block's stream; RecordStream: the other one
	Micros int64        // host time since the start of the recording; 0 for Mark
	Mark   string       // Mark: the text after "# "
}

// AppendText appends the event's line in our own format, without its end.
func (e *Event) AppendText(b []byte) ([]byte, error) {
	switch e.Kind {
	case Mark:
		return fmt.Appendf(b, "# %s", e.Mark), nil
	case Alloc:
		return fmt.Appendf(b, "a,%d,%d,%d,%d", e.ID, int64(e.Size), uint64(e.Stream), e.Micros), nil
	case FreeRequested:
		return fmt.Appendf(b, "r,%d,%d", e.ID, e.Micros), nil
	case FreeCompleted:
		return fmt.Appendf(b, "f,%d,%d", e.ID, e.Micros), nil
	case RecordStream:
		return fmt.Appendf(b, "s,%d,%d,%d", e.ID, uint64(e.Stream), e.Micros), nil
	case EmptyCache:
		return fmt.Appendf(b, "e,%d", e.Micros), nil
	}
	return b, fmt.Errorf("an event of %v has no line", e.Kind)
}

// FormatError is input that is not a trace, or not a whole one. Line is set
// for our text format, Offset for a pickle; both count what the file holds
// after decompression.
type FormatError struct {
	File   string // the input's name
	Line   int    // from 1; 0 if the place is a byte offset
	Offset int64  // byte offset, from 0, if Line is 0; -1 if Want names the place
	Want   string // what was expected there
	Got    string // what was there
	Remedy string // what the user can do about it, if that is known
	Err    error  // the cause, if another error is: io.ErrUnexpectedEOF for a cut file
}

func (e *FormatError) Error() string {
	var b strings.Builder
	switch {
	case e.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	case e.Offset >= 0:
		fmt.Fprintf(&b, "%s: byte %d: ", e.File, e.Offset)
	default:
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	fmt.Fprintf(&b, "want %s, got %s", e.Want, e.Got)
	if e.Remedy != "" {
		fmt.Fprintf(&b, "; %s", e.Remedy)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }
