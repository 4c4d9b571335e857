package trace

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPickleErrors is the list of what a user sees for a pickle that is none,
// or that is more than data.
func TestPickleErrors(t *testing.T) {
	refused := func(at, name string) string {
		return "t: byte " + at + ": want plain data, got opcode " + name +
			", which names or runs code; do not unpickle this file; " +
			"a snapshot needs no code: write it with torch.cuda.memory._dump_snapshot"
	}
	unused := func(name string) string {
		return "t: byte 2: want an opcode that snapshots use, got " + name + "; " + remedySnapshot
	}
	cut := "want a whole opcode, got the end of the file; " + remedyCut
	for _, c := range []struct{ in, want string }{
		{"\x80", "t: byte 0: " + cut},
		{"\x80\x01.", "t: byte 0: want pickle protocol 2, 3, 4 or 5, got protocol 1; " +
			remedySnapshot},
		{"\x80\x06.", "t: byte 0: want pickle protocol 2, 3, 4 or 5, got protocol 6; " +
			remedySnapshot},
		{"\x80\x04", "t: byte 2: " + cut},
		{"\x80\x04}", "t: byte 3: " + cut},
		{"\x80\x04.", "t: byte 2: want one object left at STOP, got 0"},
		{"\x80\x04NN.", "t: byte 4: want one object left at STOP, got 2"},
		{"\x80\x04(N.", "t: byte 4: want one object left at STOP, got 1"},
		{"\x80\x04}.}", "t: byte 4: want the end of the file after STOP, got more bytes"},
		{"\x80\x04cos\nsystem\n", refused("2", "GLOBAL")},
		{"\x80\x04\x8c\x02os\x8c\x06system\x93", refused("14", "STACK_GLOBAL")},
		{"\x80\x04}}R", refused("4", "REDUCE")},
		{"\x80\x04}}b", refused("4", "BUILD")},
		{"\x80\x04(ios\nsystem\n", refused("3", "INST")},
		{"\x80\x04(o", refused("3", "OBJ")},
		{"\x80\x04\x81", refused("2", "NEWOBJ")},
		{"\x80\x04\x92", refused("2", "NEWOBJ_EX")},
		{"\x80\x04\x82\x01", refused("2", "EXT1")},
		{"\x80\x04\x83\x01\x00", refused("2", "EXT2")},
		{"\x80\x04\x84\x01\x00\x00\x00", refused("2", "EXT4")},
		{"\x80\x04P1\n", refused("2", "PERSID")},
		{"\x80\x04NQ", refused("3", "BINPERSID")},
		{"\x80\x04I1\n", unused("opcode INT")},
		{"\x80\x04\x8f", unused("opcode EMPTY_SET")},
		{"\x80\x05\x97", unused("opcode NEXT_BUFFER")},
		{"\x80\x04\x80\x04", unused("byte 0x80")},
		{"\x80\x04\xff", unused("byte 0xff")},
		{"\x80\x04X\xff\xff\xff\x7fabc", "t: byte 2: " + cut},
		{"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", "t: byte 2: " + cut},
		{"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "t: byte 2: " + cut},
		{"\x80\x04\x8b\xff\xff\xff\xff", "t: byte 2: " + cut},
		{"\x80\x04e", "t: byte 2: want a mark on the stack, got none"},
		{"\x80\x04(e", "t: byte 3: want 1 values on the stack, got 0"},
		{"\x80\x04a", "t: byte 2: want 1 values on the stack, got 0"},
		{"\x80\x04](Na", "t: byte 5: want 1 values on the stack, got 0"},
		{"\x80\x04}Na", "t: byte 4: want a list to add to, got a dictionary"},
		{"\x80\x04N(NNu", "t: byte 6: want a dictionary to add to, got None"},
		{"\x80\x04}(Nu", "t: byte 5: want a value for every key, got 1 keys and values"},
		{"\x80\x04N\x87", "t: byte 3: want 3 values on the stack, got 1"},
		{"\x80\x04\x94", "t: byte 2: want 1 values on the stack, got 0"},
		{"\x80\x04h\x00", "t: byte 2: want a memo entry that was stored before, got entry 0 of 0"},
		{"\x80\x04}r\xff\xff\xff\xff0j\xfe\xff\xff\xff",
			"t: byte 8: want an opcode that snapshots use, got opcode POP; " + remedySnapshot},
		{"\x80\x04}r\xff\xff\xff\xffj\xfe\xff\xff\xff",
			"t: byte 8: want a memo entry that was stored before, got entry 4294967294 of 1"},
		{"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff",
			"t: byte 2: want a frame of a possible length, got one of 18446744073709551615 bytes"},
		{"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x95\x00\x00\x00\x00\x00\x00\x00\x00",
			"t: byte 11: want a frame after the end of the last, got one inside it"},
		{"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K", "t: byte 11: " + cut},
		{"\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00K\x05.",
			"t: byte 11: want an opcode inside its frame, got one across the frame's end"},
		{"\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00}.",
			"t: byte 12: want STOP at the end of its frame, got it 7 bytes before"},
		{"\x80\x04" + strings.Repeat("(", maxMarks+1),
			"t: byte 1002: want nesting of at most 1000, got more"},
	} {
		_, err := readAll([]byte(c.in), "t")
		var format *FormatError
		if !errors.As(err, &format) || err.Error() != c.want {
			t.Errorf("%.60q:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// TestRealObject: what Python really writes for an object is refused.
func TestRealObject(t *testing.T) {
	_, err := ReadFile("testdata/code.pickle")
	var format *FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), "opcode STACK_GLOBAL") {
		t.Errorf("an OrderedDict: %v", err)
	}
}

// TestPickleCut cuts a real snapshot short in many places.
func TestPickleCut(t *testing.T) {
	whole, err := os.ReadFile("testdata/slow.p4.pickle")
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(whole); n += 1 + n/50 {
		if _, err := readAll(whole[:n], "t"); n > 1 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
}

// TestMemo stores two empty lists and then a device's trace, under numbers in
// and out of order, and gets the trace back.
func TestMemo(t *testing.T) {
	const far = "r\xff\xff\xff\xff"
	trace := string(pickled([]any{entry("alloc", 512, 77, 0, 0)}))
	trace = trace[2 : len(trace)-1]
	for _, c := range []struct{ first, second, third, get string }{
		{"\x94", "\x94", "\x94", "h\x02"},
		{"q\x00", "q\x01", "q\x02", "j\x02\x00\x00\x00"},
		{"q\x00", "q\x00", "\x94", "h\x01"},
		{"q\x01", "q\x00", "\x94", "h\x02"},
		{"q\x01", "q\x00", "q\x01", "h\x01"},
		{"q\x05", "q\x00", "q\x05", "h\x05"},
		{far, "\x94", "\x94", "h\x02"},
		{"\x94", "\x94", far, "j" + far[1:]},
	} {
		in := "\x80\x04}\x8c\x0ddevice_traces](]" + c.first + "]" + c.second + trace + c.third +
			c.get + "es."
		events, err := readAll([]byte(in), "t", Device(3))
		if err != nil || len(events) != 1 || events[0].Size != 77 {
			t.Errorf("%q: %v, %v", c, events, err)
		}
	}
}

// TestHostile: inputs that promise or build a lot end quickly, in an error and
// without taking the memory they speak of.
func TestHostile(t *testing.T) {
	far := []byte("\x80\x04}")
	for i := range uint32(100_000) {
		far = append(far, 'r')
		far = binary.LittleEndian.AppendUint32(far, ^i)
	}
	shared := "\x80\x04}\x8c\x08segments](}(\x8c\x07address\x8c\x06blocks](" +
		strings.Repeat("N", 1000) + "eu\x94" +
		strings.Repeat("h\x00", 1000) + "es."
	for name, in := range map[string][]byte{
		"a string of 2^64-1 bytes": []byte("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff" +
			strings.Repeat("x", 1<<20)),
		"a memo of 2^32 entries": far,
		"a list in itself":       []byte("\x80\x04]\x94h\x00ah\x00."),
		"a dictionary in itself": []byte("\x80\x04}\x94\x8c\x08segmentsh\x00s."),
		"lists in lists": []byte("\x80\x04" + strings.Repeat("]", 1<<20) +
			strings.Repeat("a", 1<<20-1) + "."),
		"segments that are one": []byte(shared),
		"a stack without end":   []byte("\x80\x04" + strings.Repeat("N", 1<<20)),
		"a memo without end":    []byte("\x80\x04N" + strings.Repeat("\x94", 1<<20)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		_, err := readAll(in, "t", func(o *options) { o.cells = 1 << 20 })
		runtime.ReadMemStats(&after)
		took, grew := time.Since(begin), after.TotalAlloc-before.TotalAlloc
		var format *FormatError
		if !errors.As(err, &format) || took > 10*time.Second || grew > 256<<20 {
			t.Errorf("%s: %v, %v, %d MiB", name, err, took, grew>>20)
		}
	}
}

// TestCellLimit: the limit on what is kept is an error with a remedy.
func TestCellLimit(t *testing.T) {
	for _, body := range []string{"N\x94", "N", "](N", "}"} {
		in := []byte("\x80\x04" + strings.Repeat(body, 400))
		_, err := readAll(in, "t", func(o *options) { o.cells = 300 })
		if err == nil || !strings.Contains(err.Error(), "want a snapshot of at most 300 values") ||
			!strings.Contains(err.Error(), "max_entries") {
			t.Errorf("%q: %v", body, err)
		}
	}
}
