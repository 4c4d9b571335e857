package trace

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	remedyCut = "the file was cut short: copy or record it again"
	// anyDevice stands for the first device of a snapshot that has events.
	anyDevice = -1
)

// An Option changes how a trace is read.
type Option func(*options)

type options struct {
	device int
	cells  int
	frames bool
}

// Device chooses the device, by its number, whose events are read from a
// snapshot; the default is the first that has any. Our own format holds one
// device only and ignores it.
func Device(number int) Option { return func(o *options) { o.device = number } }

// Frames keeps the call stacks of requests, see Trace.Stacks. They take
// some 40 bytes more for every request, and their texts.
func Frames() Option { return func(o *options) { o.frames = true } }

// Reader reads a trace event by event.
//
// Memory: our own format takes the read buffer and one byte a block. A
// snapshot is a tree whose parts may refer to each other, so it is decoded
// when the Reader is made. Only what a trace needs of it is kept, no stack
// frames and no file names: about 130 bytes an event, and 330 at the peak,
// while tables grow.
//
// A file may come from anywhere. What it makes of its bytes is bounded in
// proportion to them (limits.go), at 2 GiB for a snapshot's values; what would
// keep more is refused.
type Reader struct {
	source  interface{ next() (Event, error) }
	name    string
	header  string
	device  int      // as in Trace
	skipped *Skipped // nil for our own format
	stacks  *Stacks  // nil unless Frames asked for them, and a file may have some
	close   func() error
	in      *meter
	events  int64
	err     error // the first error, which every later Next returns again
}

// NewReader reads from r; name is what errors call it. A *FormatError says
// that r holds no trace at all.
func NewReader(r io.Reader, name string, opts ...Option) (*Reader, error) {
	o := options{device: anyDevice, cells: maxCells}
	for _, set := range opts {
		set(&o)
	}
	raw := &meter{Reader: r, file: name}
	in := bufio.NewReaderSize(raw, maxLine)
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		raw.zipped = true
		unzip, err := Unzip(in)
		if err != nil {
			return nil, inputError(name, 0, 0, err)
		}
		in = bufio.NewReaderSize(unzip, maxLine)
	}
	reader := &Reader{name: BaseName(name), device: anyDevice, close: func() error { return nil },
		in: raw}
	magic, err := in.Peek(8)
	if err != nil && err != io.EOF {
		return nil, inputError(name, 0, 0, err)
	}
	switch {
	case len(magic) == 0 || magic[0] == '#':
		source := &text{in: in, file: name, tree: newTree(o.frames)}
		if reader.header, err = source.header(); err != nil {
			return nil, err
		}
		reader.source = source
		if o.frames {
			reader.stacks = source.tree.stacks
		}
	case magic[0] == opProto:
		source, err := readSnapshot(in, raw, name, o)
		if err != nil {
			return nil, err
		}
		reader.header, reader.device = snapshotHeader(reader.name, source.device), source.device
		reader.source, reader.skipped, reader.stacks = source, &source.skipped, source.stacks
	default:
		return nil, foreign(name, magic)
	}
	return reader, nil
}

// foreign explains a file that is neither format.
func foreign(name string, magic []byte) error {
	e := &FormatError{
		File: name, Line: 1,
		Want: wantHeader + " or a pickled snapshot",
		Got:  fmt.Sprintf("a file beginning with %q", magic[:min(len(magic), 2)]),
	}
	switch {
	case bytes.HasPrefix(magic, []byte("PK")):
		e.Got = "a zip archive"
		e.Remedy = "torch.save writes these: write snapshots with torch.cuda.memory._dump_snapshot"
	case string(magic) == "STALLOCP":
		e.Got, e.Remedy = "a plan file", "stalloc report reads it"
	case magic[0] == '[' || magic[0] == '{':
		e.Got, e.Remedy = "JSON", "if it is the log of a live run, stalloc report reads it"
	}
	return e
}

// Open reads the file at path, which Close closes.
func Open(path string, opts ...Option) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err // names the call and the path
	}
	r, err := NewReader(file, path, opts...)
	if err != nil {
		file.Close()
		return nil, err
	}
	r.close = file.Close
	return r, nil
}

// Next returns the next event, and io.EOF after the last. Input that is not a
// trace gives a *FormatError; after any error Next returns that error again.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	e, err := r.source.next()
	if r.events++; err == nil && r.events > mostEvents(r.in.n) {
		e, err = Event{}, r.in.tooMuch("no more events than the file has bytes")
	}
	r.err = err
	return e, err
}

// Name returns the input's base name without .gz, .csv and .pickle.
func (r *Reader) Name() string { return r.name }

// Header returns the header line's text after "# ". A snapshot has none, and
// gets one that says where it came from.
func (r *Reader) Header() string { return r.header }

// Skipped returns what a snapshot's ring had lost of the events read so far.
func (r *Reader) Skipped() Skipped {
	if r.skipped == nil {
		return Skipped{}
	}
	return *r.skipped
}

// Close closes the file that Open opened.
func (r *Reader) Close() error { return r.close() }

// ReadFile reads the whole trace at path.
func ReadFile(path string, opts ...Option) (*Trace, error) {
	r, err := Open(path, opts...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.all()
}

// all reads the rest of a trace that has just been opened.
func (r *Reader) all() (*Trace, error) {
	t := &Trace{Name: r.Name(), Header: r.Header(), Device: r.device}
	for {
		e, err := r.Next()
		if err == io.EOF {
			t.Skipped, t.Stacks = r.Skipped(), r.stacks.found()
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		t.Events = grown(t.Events, e)
	}
}

// BaseName returns the name of the trace in the file at path.
func BaseName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	for _, suffix := range []string{".csv", ".pickle", ".pkl"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base
		}
	}
	return name
}

// inputError explains an error of the bytes underneath a format: a damaged or
// cut gzip stream is bad input, anything else is a failing read.
func inputError(file string, line int, offset int64, err error) error {
	e := &FormatError{File: file, Line: line, Offset: offset, Want: "a whole gzip stream",
		Remedy: remedyCut, Err: err}
	var corrupt flate.CorruptInputError
	switch {
	case err == io.ErrUnexpectedEOF || err == io.EOF:
		e.Got, e.Err = "one that is cut short", io.ErrUnexpectedEOF
	case errors.Is(err, errBomb):
		return (&meter{file: file, zipped: true}).tooMuch(errBomb.Error())
	case err == gzip.ErrChecksum || err == gzip.ErrHeader || errors.As(err, &corrupt):
		e.Got = "a damaged one (" + err.Error() + ")"
	default:
		return fmt.Errorf("%s: %w", file, err)
	}
	return e
}
