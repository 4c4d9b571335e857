package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stalloc/internal/output"
)

// Writer writes our own format. It accepts what a Reader accepts and nothing
// else, so a recorder learns of its mistake when it makes it.
type Writer struct {
	out    *bufio.Writer
	line   []byte // reused
	ledger ledger
	events int64
	err    error // the first error, which every later call returns again
}

// NewWriter begins a trace on w. The header must begin with "workload " or
// "megatron " and fit on a line; a bad one fails the first Write.
func NewWriter(w io.Writer, header string) *Writer {
	out := &Writer{out: bufio.NewWriterSize(w, maxLine)}
	if !validHeader(header) {
		out.err = fmt.Errorf("trace header %q: want one line beginning with %q or %q", header, "workload ", "megatron ")
		return out
	}
	_, out.err = fmt.Fprintf(out.out, "# %s\n", header)
	return out
}

// Write adds one event. An event that no trace can hold at this place is an
// error and is not written; the trace can go on without it.
func (w *Writer) Write(e Event) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(&e); err != nil {
		return err
	}
	w.events++
	w.line = appendLine(w.line[:0], &e)
	_, w.err = w.out.Write(w.line)
	return w.err
}

func (w *Writer) check(e *Event) error {
	want, got := "", ""
	switch {
	case e.Kind < Alloc || e.Kind > EmptyCache:
		want, got = "a known kind", e.Kind.String()
	case e.Kind == Mark && !validMark(e.Mark):
		want, got = "a mark of one line", strconv.Quote(e.Mark)
	case negative(e):
		want, got = "an id, a size and a time of at least 0", fmt.Sprintf("%d, %d, %d", e.ID, int64(e.Size), e.Micros)
	default:
		want, got = w.ledger.apply(e)
	}
	if want == "" {
		return nil
	}
	return fmt.Errorf("trace event %d: want %s, got %s", w.events, want, got)
}

// appendLine appends the event's line, with its line break.
func appendLine(b []byte, e *Event) []byte {
	field := func(n uint64) { b = strconv.AppendUint(append(b, ','), n, 10) }
	switch e.Kind {
	case Mark:
		b = append(append(b, "# "...), e.Mark...)
		return append(b, '\n')
	case Alloc:
		b = append(b, 'a')
		field(uint64(e.ID))
		field(uint64(e.Size))
		field(uint64(e.Stream))
	case FreeRequested:
		b = append(b, 'r')
		field(uint64(e.ID))
	case FreeCompleted:
		b = append(b, 'f')
		field(uint64(e.ID))
	case RecordStream:
		b = append(b, 's')
		field(uint64(e.ID))
		field(uint64(e.Stream))
	case EmptyCache:
		b = append(b, 'e')
	}
	field(uint64(e.Micros))
	return append(b, '\n')
}

// Flush passes everything written so far to the underlying writer.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// WriteFile writes the trace in our own format, gzip'd if path ends in .gz; path
// never holds half a trace.
func (t *Trace) WriteFile(path string) error {
	err := output.Write(path, 0o644, func(w io.Writer) error { return t.write(w, strings.HasSuffix(path, ".gz")) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (t *Trace) write(to io.Writer, zip bool) error {
	if zip {
		// The fields of a gzip header stay empty: equal traces give equal files.
		zipped := gzip.NewWriter(to)
		if err := t.write(zipped, false); err != nil {
			return err
		}
		return zipped.Close()
	}
	w := NewWriter(to, t.Header)
	for i := range t.Events {
		if err := w.Write(t.Events[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}
