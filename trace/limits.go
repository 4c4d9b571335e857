package trace

import (
	"compress/gzip"
	"fmt"
	"io"
	"slices"
)

// A file may come from anywhere, so what is made of it is in proportion to its bytes, as they lie
// on the disk.
const (
	// mostRatio is how many bytes gzip may have made one of. Snapshots with deep stacks come
	// near 70, recordings to 4; gzip itself can do 1000.
	mostRatio = 200
	// freeBytes, freeEvents and freeCells are what any file may make: it has little to be in
	// proportion to.
	freeBytes  = 1 << 20
	freeEvents = 1 << 16
	freeCells  = 1 << 21
	// cellsPerByte is of a gzip'd snapshot. Some have 2; those of programs that ask from few
	// places and a hundred frames deep up to 16, and must be unpacked if they have more than
	// 20,000 events. A plain one has a fifth of a cell a byte, and may have one.
	cellsPerByte = 6
)

// mostEvents bounds the events of a file, of which so many bytes were read. Lines of recordings
// have 4 bytes at least, and some 5 when they are gzip'd.
func mostEvents(read int64) int64 { return freeEvents + read }

// mostCells bounds what an unpickler keeps of so many bytes, of which so many were read from
// the file.
func mostCells(unzipped,
	read int64) int {
	return int(freeCells + min(unzipped, cellsPerByte*read))
}

// grown appends, and doubles a table that is full: append alone, which goes by quarters, leaves
// four times as much behind as it makes.
func grown[T any](table []T, items ...T) []T {
	if len(table)+len(items) > cap(table) {
		table = slices.Grow(table, max(len(items), len(table)))
	}
	return append(table, items...)
}

// meter counts what was read.
type meter struct {
	io.Reader
	n      int64
	file   string
	zipped bool
}

// tooMuch refuses a file that is out of proportion.
func (m *meter) tooMuch(want string) *FormatError {
	e := &FormatError{File: m.file, Offset: -1, Want: want, Got: "more"}
	if m.zipped {
		e.Remedy = "if you know where it comes from, unpack it with gunzip and give that file"
	}
	return e
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	m.n += int64(n)
	return n, err
}

var errBomb = fmt.Errorf("at most %d bytes out of each that gzip has left", mostRatio)

// Unzip unpacks what gzip has packed. What would grow out of proportion is an error.
func Unzip(r io.Reader) (io.Reader, error) {
	in := &meter{Reader: r}
	out, err := gzip.NewReader(in)
	return &unzipped{meter{Reader: out}, in}, err
}

type unzipped struct {
	meter
	in *meter
}

func (u *unzipped) Read(b []byte) (int, error) {
	n, err := u.meter.Read(b)
	if u.n > freeBytes+mostRatio*u.in.n {
		return 0, errBomb
	}
	return n, err
}
