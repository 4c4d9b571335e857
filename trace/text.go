package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"stalloc/internal/mem"
)

// maxLine bounds a line and with it the memory of a text reader.
const maxLine = 64 << 10

const wantHeader = `a header line "# workload ..." or "# megatron ..."`

// lineForms says, for every first letter, what the line looks like. The number
// of fields after the letter is the number of commas.
var lineForms = [...]struct {
	kind   Kind
	form   string
	fields int
}{
	'a': {Alloc, `"a,<id>,<bytes>,<stream>,<µs>"`, 4},
	'r': {FreeRequested, `"r,<id>,<µs>"`, 2},
	'f': {FreeCompleted, `"f,<id>,<µs>"`, 2},
	's': {RecordStream, `"s,<id>,<stream>,<µs>"`, 3},
	'e': {EmptyCache, `"e,<µs>"`, 1},
}

// text reads our own format. Every line is parsed in the read buffer; only a
// mark's text is copied out of it.
type text struct {
	in     *bufio.Reader // of maxLine bytes
	file   string
	line   int // the line read last, from 1
	ledger ledger
	tree   *tree // of call stacks; nil unless asked for
}

// header reads the first line.
func (t *text) header() (string, error) {
	line, err := t.read()
	if err == io.EOF {
		return "", &FormatError{File: t.file, Line: 1, Want: wantHeader, Got: "an empty file"}
	}
	if err != nil {
		return "", err
	}
	header, ok := strings.CutPrefix(string(line), "# ")
	if !ok || !validHeader(header) {
		return "", t.fail(wantHeader, quote(line))
	}
	return header, nil
}

// validHeader reports whether the text may follow "# " on the first line.
func validHeader(header string) bool {
	return len(header)+len("# \r\n") <= maxLine && !strings.ContainsAny(header, "\r\n") &&
		(strings.HasPrefix(header, "workload ") || strings.HasPrefix(header, "megatron "))
}

// read returns the next line without its end, valid until the next read.
func (t *text) read() ([]byte, error) {
	line, err := t.in.ReadSlice('\n')
	if len(line) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	t.line++
	switch {
	case err == bufio.ErrBufferFull:
		return nil, t.fail(fmt.Sprintf("a line of at most %d bytes", maxLine), quote(line))
	case err == io.EOF:
		cut := t.fail("a line that ends in a line break", quote(line)+" and the end of the file")
		cut.Remedy, cut.Err = remedyCut, io.ErrUnexpectedEOF
		return nil, cut
	case err != nil:
		return nil, inputError(t.file, t.line, 0, err)
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// event reads the next line that is no stack's.
func (t *text) event() ([]byte, error) {
	for {
		line, err := t.read()
		if err != nil || len(line) == 0 || line[0] != 'k' {
			return line, err
		}
		if want := t.tree.grow(line); want != "" {
			return nil, t.fail(want, quote(line))
		}
	}
}

// withoutStack takes the stack from the line of a request that has one; -1 elsewhere.
func (t *text) withoutStack(line []byte) (rest []byte, stack int32, err error) {
	if len(line) == 0 || line[0] != 'a' || bytes.Count(line, []byte{','}) != 5 {
		return line, -1, nil
	}
	comma := bytes.LastIndexByte(line, ',')
	var number [1]uint64
	if !numbers(line[comma:], number[:]) || !t.tree.has(number[0]) {
		return nil, -1, t.fail("the number of a stack that was told before", quote(line))
	}
	return line[:comma], int32(number[0]), nil
}

// next reads one event.
func (t *text) next() (Event, error) {
	line, err := t.event()
	if err != nil {
		return Event{}, err
	}
	if len(line) > 0 && line[0] == '#' {
		return t.mark(line)
	}
	line, stack, err := t.withoutStack(line)
	if err != nil {
		return Event{}, err
	}
	if len(line) == 0 || int(line[0]) >= len(lineForms) || lineForms[line[0]].kind == 0 {
		return Event{}, t.fail(`a line beginning with a, r, f, s, e, k or "# "`, quote(line))
	}
	form := &lineForms[line[0]]
	var n [4]uint64
	if !numbers(line[1:], n[:form.fields]) {
		return Event{}, t.fail(form.form, quote(line))
	}
	e := Event{Kind: form.kind, ID: int64(n[0])}
	switch form.kind {
	case Alloc:
		e.Size, e.Stream, e.Micros = mem.Bytes(n[1]), mem.StreamID(n[2]), int64(n[3])
	case RecordStream:
		e.Stream, e.Micros = mem.StreamID(n[1]), int64(n[2])
	case EmptyCache:
		e.ID, e.Micros = 0, int64(n[0])
	default:
		e.Micros = int64(n[1])
	}
	if negative(&e) {
		return Event{}, t.fail(fmt.Sprintf("numbers of at most %d", int64(math.MaxInt64)),
			quote(line))
	}
	if want, got := t.ledger.apply(&e); want != "" {
		return Event{}, t.fail(want, got)
	}
	if stack >= 0 {
		t.tree.note(e.ID, t.ledger.blocks, stack)
	}
	return e, nil
}

func (t *text) mark(line []byte) (Event, error) {
	mark, ok := bytes.CutPrefix(line, []byte("# "))
	if !ok || len(mark) == 0 || bytes.IndexByte(mark, '\r') >= 0 {
		return Event{}, t.fail(`"# <mark>"`, quote(line))
	}
	return Event{Kind: Mark, Mark: string(mark)}, nil
}

// numbers parses ",12,34,56" into exactly len(into) decimal numbers and
// reports whether it could.
func numbers(s []byte, into []uint64) bool {
	pos := 0
	for i := range into {
		if pos >= len(s) || s[pos] != ',' {
			return false
		}
		pos++
		first, v := pos, uint64(0)
		for pos < len(s) {
			digit := s[pos] - '0'
			if digit > 9 {
				break
			}
			if v > math.MaxUint64/10 || v*10 > math.MaxUint64-uint64(digit) {
				return false
			}
			v = v*10 + uint64(digit)
			pos++
		}
		if pos == first {
			return false
		}
		into[i] = v
	}
	return pos == len(s)
}

// fail places an error at the current line.
func (t *text) fail(want, got string) *FormatError {
	return &FormatError{File: t.file, Line: t.line, Want: want, Got: got}
}

// quote shows a line in an error message, the start of it if it is long.
func quote(line []byte) string {
	const most = 60
	if len(line) == 0 {
		return "an empty line"
	}
	if len(line) > most {
		return fmt.Sprintf("%q...", line[:most])
	}
	return fmt.Sprintf("%q", line)
}
