package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

const header = "# workload tiny\n"

// readAll reads a trace from memory.
func readAll(data []byte, name string, opts ...Option) ([]Event, error) {
	r, err := NewReader(bytes.NewReader(data), name, opts...)
	if err != nil {
		return nil, err
	}
	var events []Event
	for {
		e, err := r.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			if _, again := r.Next(); again != err {
				return nil, errors.New("an error did not stay")
			}
			return events, err
		}
		events = append(events, e)
	}
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func TestTextEveryLine(t *testing.T) {
	const lines = header +
		"# setup\na,0,1,0,3\na,7,513,18446744073709551615,4\n# step 0\ns,7,5,5\nr,7,6\ne,7\nf,7,8\n# end of it all\n"
	want := []Event{
		{Kind: Mark, Mark: "setup"},
		{Kind: Alloc, ID: 0, Size: 1, Micros: 3},
		{Kind: Alloc, ID: 7, Size: 513, Stream: 1<<64 - 1, Micros: 4},
		{Kind: Mark, Mark: "step 0"},
		{Kind: RecordStream, ID: 7, Stream: 5, Micros: 5},
		{Kind: FreeRequested, ID: 7, Micros: 6},
		{Kind: EmptyCache, Micros: 7},
		{Kind: FreeCompleted, ID: 7, Micros: 8},
		{Kind: Mark, Mark: "end of it all"},
	}
	crlf := strings.ReplaceAll(lines, "\n", "\r\n")
	for name, data := range map[string][]byte{
		"LF": []byte(lines), "CRLF": []byte(crlf), "gzip": zipped([]byte(lines)),
		"gzip in two members": append(zipped([]byte(lines[:40])), zipped([]byte(lines[40:]))...),
	} {
		got, err := readAll(data, name)
		if i := firstDifference(got, want); err != nil || i >= 0 {
			t.Errorf("%s: event %d differs, %v: %v", name, i, err, got)
		}
	}
}

// TestTextErrors is the list of what a user sees for a bad file.
func TestTextErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `t:1: want a header line "# workload ..." or "# megatron ...", got an empty file`},
		{"# setup\n", `t:1: want a header line "# workload ..." or "# megatron ...", got "# setup"`},
		{"# workload tiny", `t:1: want a line that ends in a line break, got "# workload tiny" and the end of the file; ` + remedyCut},
		{"a,0,1,0,0\n", `t:1: want a header line "# workload ..." or "# megatron ..." or a pickled snapshot, got a file beginning with "a,"`},
		{"STALLOCP\x01\x00", `t:1: want a header line "# workload ..." or "# megatron ..." or a pickled snapshot, got a plan file; stalloc report reads it`},
		{"[\n{}", `t:1: want a header line "# workload ..." or "# megatron ..." or a pickled snapshot, got JSON; if it is the log of a live run, stalloc report reads it`},
		{"PK\x03\x04", `t:1: want a header line "# workload ..." or "# megatron ..." or a pickled snapshot, got a zip archive; torch.save writes these: write snapshots with torch.cuda.memory._dump_snapshot`},
		{header + "a,0,1,0,0",
			`t:2: want a line that ends in a line break, got "a,0,1,0,0" and the end of the file; ` + remedyCut},
		{header + "a,0,1,0\n", `t:2: want "a,<id>,<bytes>,<stream>,<µs>", got "a,0,1,0"`},
		{header + "a,0,1,0,0,\n",
			`t:2: want the number of a stack that was told before, got "a,0,1,0,0,"`},
		{header + "a,0,1,0,0,0\n",
			`t:2: want the number of a stack that was told before, got "a,0,1,0,0,0"`},
		{header + "k,1,,x.py:1 f\n", `t:2: want ` + wantStack + `, got "k,1,,x.py:1 f"`},
		{header + "k,0,0,x.py:1 f\n", `t:2: want ` + wantStack + `, got "k,0,0,x.py:1 f"`},
		{header + "k,0,x.py:1 f\n", `t:2: want ` + wantStack + `, got "k,0,x.py:1 f"`},
		{header + "a,0,-1,0,0\n", `t:2: want "a,<id>,<bytes>,<stream>,<µs>", got "a,0,-1,0,0"`},
		{header + "a,0, 1,0,0\n", `t:2: want "a,<id>,<bytes>,<stream>,<µs>", got "a,0, 1,0,0"`},
		{header + "a,0,18446744073709551616,0,0\n",
			`t:2: want "a,<id>,<bytes>,<stream>,<µs>", got "a,0,18446744073709551616,0,0"`},
		{header + "a,0,9223372036854775808,0,0\n",
			`t:2: want numbers of at most 9223372036854775807, got "a,0,9223372036854775808,0,0"`},
		{header + "a,0,281474976710657,0,0\n",
			`t:2: want a request of at most 281474976710656 bytes, got 281474976710657`},
		{header + "r\n", `t:2: want "r,<id>,<µs>", got "r"`},
		{header + "r,0,\n", `t:2: want "r,<id>,<µs>", got "r,0,"`},
		{header + "s,0,0\n", `t:2: want "s,<id>,<stream>,<µs>", got "s,0,0"`},
		{header + "e,\n", `t:2: want "e,<µs>", got "e,"`},
		{header + "\n", `t:2: want a line beginning with a, r, f, s, e, k or "# ", got an empty line`},
		{header + "x,1\n", `t:2: want a line beginning with a, r, f, s, e, k or "# ", got "x,1"`},
		{header + "\xff\n", `t:2: want a line beginning with a, r, f, s, e, k or "# ", got "\xff"`},
		{header + "#step 0\n", `t:2: want "# <mark>", got "#step 0"`},
		{header + "# \n", `t:2: want "# <mark>", got "# "`},
		{header + "# a\rb\n", `t:2: want "# <mark>", got "# a\rb"`},
		{header + "r,4,0\n", `t:2: want the free of a live block, got block 4, which was never allocated`},
		{header + "a,4,1,0,0\nf,4,0\n",
			`t:3: want the end of a block whose free was requested, got block 4, which is live`},
		{header + "f,4,0\n", `t:2: want the end of a block whose free was requested, got block 4, which was never allocated`},
		{header + "a,4,1,0,0\nr,4,0\nr,4,0\n",
			`t:4: want the free of a live block, got block 4, whose free was requested before`},
		{header + "a,4,1,0,0\nr,4,0\nf,4,0\nf,4,0\n",
			`t:5: want the end of a block whose free was requested, got block 4, which was freed before`},
		{header + "a,4,1,0,0\na,4,1,0,0\n",
			`t:3: want a block id that was not used before, got block 4, which is live`},
		{header + "a,9999999,1,0,0\nr,9999999,0\nf,9999999,0\na,9999999,1,0,0\n",
			`t:5: want a block id that was not used before, got block 9999999, which was freed before`},
		{header + "a,4,1,0,0\nr,4,0\ns,4,1,0\n",
			`t:4: want record_stream of a live block, got block 4, whose free was requested before`},
		{header + "# " + strings.Repeat("x", maxLine) + "\n",
			`t:2: want a line of at most 65536 bytes, got "# ` + strings.Repeat("x", 58) + `"...`},
	} {
		_, err := readAll([]byte(c.in), "t")
		var format *FormatError
		if !errors.As(err, &format) || err.Error() != c.want {
			t.Errorf("%.60q:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// TestTotalIsBounded: no sum of sizes over a trace can overflow.
func TestTotalIsBounded(t *testing.T) {
	var l ledger
	for id := int64(0); ; id++ {
		e := Event{Kind: Alloc, ID: id, Size: maxSize}
		if want, _ := l.apply(&e); want != "" {
			if id != int64(maxTotal/maxSize) {
				t.Errorf("refused request %d: want %s", id, want)
			}
			return
		}
	}
}

// TestCut cuts a recording short at every byte, zipped and not: a cut in the
// middle of a line and any cut of a gzip stream must be noticed.
func TestCut(t *testing.T) {
	whole := []byte(header + "# setup\na,0,1,0,3\na,1,513,1,4\nr,0,6\nf,0,8\n# end\n")
	for n := 1; n < len(whole); n++ {
		_, err := readAll(whole[:n], "t")
		if atBreak := whole[n-1] == '\n'; atBreak != (err == nil) || !atBreak && n > 1 &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	zip := zipped(whole)
	for n := 2; n < len(zip); n++ {
		if _, err := readAll(zip[:n], "t"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d, zipped: %v", n, len(zip), err)
		}
	}
	zip[len(zip)-5] ^= 1 // in the checksum
	var format *FormatError
	if _, err := readAll(zip, "t"); !errors.As(err, &format) || !errors.Is(err, gzip.ErrChecksum) {
		t.Errorf("damaged gzip: %v", err)
	}
}

// TestFailingInput: an error of the disk is not an error of the format.
func TestFailingInput(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, start := range []string{"", header, header + "a,0,1", "\x80\x04", "\x1f\x8b"} {
		in := io.MultiReader(strings.NewReader(start), iotest.ErrReader(broken))
		r, err := NewReader(in, "t")
		if err == nil {
			_, err = r.Next()
		}
		var format *FormatError
		if !errors.Is(err, broken) || errors.As(err, &format) {
			t.Errorf("after %q: %v", start, err)
		}
	}
	if _, err := Open("testdata/missing.csv"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestLinesAllocateNothing: reading costs no garbage except for marks.
func TestLinesAllocateNothing(t *testing.T) {
	text := []byte("# workload many\n")
	const blocks = 20000
	for id := range blocks {
		text = fmt.Appendf(text, "a,%d,%d,0,%d\nr,%d,%d\nf,%d,%d\n", id, id, id, id, id, id, id)
	}
	lines := 0
	allocs := testing.AllocsPerRun(1, func() {
		events, err := NewReader(bytes.NewReader(text), "many")
		if err != nil {
			t.Fatal(err)
		}
		for lines = 0; err == nil; lines++ {
			_, err = events.Next()
		}
	})
	// The reader itself, its buffer, and the ledger's doublings.
	if lines != 3*blocks+1 || allocs > 60 {
		t.Errorf("%d lines, %.0f allocations", lines-1, allocs)
	}
}
