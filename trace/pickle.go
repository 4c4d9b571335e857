package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// maxCells bounds what an unpickler keeps: values of 16 bytes in its memo, in
// lists and in dictionaries, so 2 GiB, and up to twice that while a table
// grows. A snapshot of a million events takes some ten million.
const maxCells = 1 << 27

// maxStack bounds the unpickler's stack. Pickles store what is on it by the
// thousand.
const maxStack = 1 << 16

// maxMarks bounds how deep an unpickler's input may nest. Snapshots nest seven
// deep.
const maxMarks = 1000

// valueKind says what a value is. Only the kinds that carry a number are kept;
// of the others the kind alone is, for error messages.
type valueKind uint8

const (
	valueNone valueKind = iota
	valueBool
	valueFloat
	valueString // one that is no word; n is its number where texts are kept, from 1
	valueBytes
	valueTuple
	valueBig  // an integer outside int64
	valueInt  // n is the integer
	valueWord // n is the word
	valueList // n is the index of the list
	valueDict // n is the index of the dictionary
)

var valueNames = [...]string{
	valueNone: "None", valueBool: "a bool", valueFloat: "a float", valueString: "a string",
	valueBytes: "bytes",
	valueTuple: "a tuple", valueBig: "an integer beyond 64 bits", valueInt: "an integer",
	valueWord: "a string",
	valueList: "a list", valueDict: "a dictionary",
}

func (k valueKind) String() string { return valueNames[k] }

// value is one Python object. Lists and dictionaries are named by index, so
// that one object reached in two ways is one object here too.
type value struct {
	n    int64
	kind valueKind
	key  word // in a dictionary's field: its key
}

// dict is a range of pickle.fields. It holds the keys that are words, at most
// lastKey of them: a snapshot's other keys are dropped with their values.
type dict struct{ first, end uint32 }

// pickle decodes one pickle into tables that no input can make larger than
// some multiple of its length. It never reserves memory by a length it read.
type pickle struct {
	in    *bufio.Reader
	raw   *meter // what in is read from
	file  string
	at    int64 // bytes read
	opAt  int64 // where the current opcode began
	frame int64 // where the current frame ends, 0 outside of any

	stack []value
	marks []int // heights of the stack
	memo  []value
	far   map[uint32]value // memo entries that came out of order
	lists [][]value
	dicts []dict
	field []value // the fields of all dictionaries

	strings map[string]int64 // numbers of the texts; nil where they are forgotten
	texts   []string

	cells, most int // kept so far, and allowed
}

// decode runs the pickle to its end and returns the object it stands for.
func (p *pickle) decode() (value, error) {
	if err := p.proto(); err != nil {
		return value{}, err
	}
	for {
		p.opAt = p.at
		op, err := p.byte()
		if err != nil {
			return value{}, err
		}
		if op == opStop {
			return p.stop()
		}
		if err := p.step(op); err != nil {
			return value{}, err
		}
		if p.opAt < p.frame && p.at > p.frame {
			return value{}, p.fail("an opcode inside its frame", "one across the frame's end")
		}
		switch {
		case len(p.stack) > maxStack:
			return value{}, p.fail(fmt.Sprintf("at most %d values on the stack", maxStack), "more")
		case p.cells+len(p.stack) > p.most:
			e := p.fail(fmt.Sprintf("a snapshot of at most %d values", p.most), "more")
			e.Remedy = "record fewer events: max_entries of torch.cuda.memory._record_memory_history"
			return value{}, e
		case p.cells > mostCells(p.at, p.raw.n):
			return value{}, p.raw.tooMuch("no more values than the file has room for")
		}
	}
}

func (p *pickle) proto() error {
	head, err := p.take(2)
	if err != nil {
		return err
	}
	if version := head[1]; version < 2 || version > 5 {
		e := p.fail("pickle protocol 2, 3, 4 or 5", fmt.Sprintf("protocol %d", version))
		e.Remedy = remedySnapshot
		return e
	}
	return nil
}

// stop returns the result, which must be alone on the stack and at the end of
// the input.
func (p *pickle) stop() (value, error) {
	if len(p.stack) != 1 || len(p.marks) != 0 {
		return value{}, p.fail("one object left at STOP", fmt.Sprintf("%d", len(p.stack)))
	}
	result := p.stack[0]
	if p.frame > p.at {
		return value{}, p.fail("STOP at the end of its frame", fmt.Sprintf("it %d bytes before",
			p.frame-p.at))
	}
	p.opAt = p.at
	switch _, err := p.in.ReadByte(); err {
	case io.EOF:
		return result, nil
	case nil:
		return value{}, p.fail("the end of the file after STOP", "more bytes")
	default:
		return value{}, inputError(p.file, 0, p.at, err)
	}
}

// fail places an error at the current opcode.
func (p *pickle) fail(want, got string) *FormatError {
	return &FormatError{File: p.file, Offset: p.opAt, Want: want, Got: got}
}

// short explains that the input ended, or failed, inside an opcode.
func (p *pickle) short(err error) error {
	if err != io.EOF {
		return inputError(p.file, 0, p.at, err)
	}
	e := p.fail("a whole opcode", "the end of the file")
	e.Remedy, e.Err = remedyCut, io.ErrUnexpectedEOF
	return e
}

func (p *pickle) byte() (byte, error) {
	b, err := p.in.ReadByte()
	if err != nil {
		return 0, p.short(err)
	}
	p.at++
	return b, nil
}

// take returns the next n bytes, at most a read buffer's, until the next read.
func (p *pickle) take(n int) ([]byte, error) {
	b, err := p.in.Peek(n)
	if err != nil {
		return nil, p.short(err)
	}
	p.in.Discard(n) // they are in the buffer
	p.at += int64(n)
	return b, nil
}

// skip reads over n bytes without keeping them: n may be a lie.
func (p *pickle) skip(n uint64) error {
	for n > 0 {
		done, err := p.in.Discard(int(min(n, 1<<30)))
		p.at += int64(done)
		n -= uint64(done)
		if err != nil {
			return p.short(err)
		}
	}
	return nil
}

// uint reads a little-endian number of 1, 2, 4 or 8 bytes.
func (p *pickle) uint(width int) (uint64, error) {
	b, err := p.take(width)
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), nil
}

// enter begins a frame: a hint to read ahead, which we check and do not use.
func (p *pickle) enter() error {
	n, err := p.uint(8)
	if err != nil {
		return err
	}
	if p.opAt < p.frame {
		return p.fail("a frame after the end of the last", "one inside it")
	}
	if n > math.MaxInt64-uint64(p.at) {
		return p.fail("a frame of a possible length", fmt.Sprintf("one of %d bytes", n))
	}
	p.frame = p.at + int64(n)
	return nil
}
