package trace

import (
	"encoding/binary"
	"fmt"
)

// step runs one opcode.
func (p *pickle) step(op byte) error {
	switch op {
	case opMark:
		return p.mark()
	case opNone:
		p.push(value{kind: valueNone})
		return nil
	case opNewTrue, opNewFalse:
		p.push(value{kind: valueBool})
		return nil
	case opBinInt, opBinInt1, opBinInt2:
		return p.integer(op)
	case opLong1:
		return p.long(1)
	case opLong4:
		return p.long(4)
	case opBinFloat:
		return p.opaque(8, valueFloat)
	case opShortBinUnicode:
		return p.text(1)
	case opBinUnicode:
		return p.text(4)
	case opBinUnicode8:
		return p.text(8)
	case opShortBinBytes:
		return p.bytes(1)
	case opBinBytes:
		return p.bytes(4)
	case opBinBytes8:
		return p.bytes(8)
	case opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple:
		return p.tuple(op)
	case opEmptyList:
		p.lists = grown(p.lists, nil)
		p.cells += 2
		p.push(value{kind: valueList, n: int64(len(p.lists) - 1)})
		return nil
	case opEmptyDict:
		p.dicts = grown(p.dicts, dict{})
		p.cells++
		p.push(value{kind: valueDict, n: int64(len(p.dicts) - 1)})
		return nil
	case opAppend, opAppends:
		return p.appendItems(op)
	case opSetItem, opSetItems:
		return p.setItems(op)
	case opMemoize, opBinPut, opLongBinPut:
		return p.put(op)
	case opBinGet, opLongBinGet:
		return p.get(op)
	case opFrame:
		return p.enter()
	}
	want, got, remedy := refuse(op)
	e := p.fail(want, got)
	e.Remedy = remedy
	return e
}

func (p *pickle) push(v value) { p.stack = append(p.stack, v) }

func (p *pickle) mark() error {
	if len(p.marks) == maxMarks {
		return p.fail(fmt.Sprintf("nesting of at most %d", maxMarks), "more")
	}
	p.marks = append(p.marks, len(p.stack))
	return nil
}

// pop removes the n values on top, which may not reach below the last mark.
// They stay valid until the next push.
func (p *pickle) pop(n int) ([]value, error) {
	floor := 0
	if len(p.marks) > 0 {
		floor = p.marks[len(p.marks)-1]
	}
	if len(p.stack)-n < floor {
		return nil, p.fail(fmt.Sprintf("%d values on the stack", n),
			fmt.Sprintf("%d", len(p.stack)-floor))
	}
	popped := p.stack[len(p.stack)-n:]
	p.stack = p.stack[:len(p.stack)-n]
	return popped, nil
}

// popMark removes the last mark and the values above it.
func (p *pickle) popMark() ([]value, error) {
	if len(p.marks) == 0 {
		return nil, p.fail("a mark on the stack", "none")
	}
	popped, err := p.pop(len(p.stack) - p.marks[len(p.marks)-1])
	p.marks = p.marks[:len(p.marks)-1]
	return popped, err
}

func (p *pickle) integer(op byte) error {
	width := 4
	switch op {
	case opBinInt1:
		width = 1
	case opBinInt2:
		width = 2
	}
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	v := int64(n)
	if op == opBinInt {
		v = int64(int32(n)) // the only signed one
	}
	p.push(value{kind: valueInt, n: v})
	return nil
}

// long reads a two's complement number after its length.
func (p *pickle) long(width int) error {
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	if n > 8 {
		return p.opaque(n, valueBig)
	}
	b, err := p.take(int(n))
	if err != nil {
		return err
	}
	var whole [8]byte
	copy(whole[:], b)
	if n > 0 && b[n-1] >= 0x80 {
		for i := n; i < 8; i++ {
			whole[i] = 0xff
		}
	}
	p.push(value{kind: valueInt, n: int64(binary.LittleEndian.Uint64(whole[:]))})
	return nil
}

// opaque reads over n bytes and pushes a value of which only the kind is kept.
func (p *pickle) opaque(n uint64, kind valueKind) error {
	if err := p.skip(n); err != nil {
		return err
	}
	p.push(value{kind: kind})
	return nil
}

func (p *pickle) bytes(width int) error {
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	return p.opaque(n, valueBytes)
}

func (p *pickle) text(width int) error {
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	if n > uint64(longestWord) && (p.strings == nil || n > maxText) {
		return p.opaque(n, valueString)
	}
	b, err := p.take(int(n))
	if err != nil {
		return err
	}
	if w, ok := wordOf[string(b)]; ok {
		p.push(value{kind: valueWord, n: int64(w)})
		return nil
	}
	p.push(value{kind: valueString, n: p.keep(b)})
	return nil
}

// maxText bounds a file's or function's name; the text of a longer one is forgotten.
const maxText = 1 << 12

// keep returns a string's number, 0 where texts are forgotten.
func (p *pickle) keep(b []byte) int64 {
	if p.strings == nil {
		return 0
	}
	n, ok := p.strings[string(b)]
	if !ok {
		p.texts = append(p.texts, string(b))
		n = int64(len(p.texts))
		p.strings[string(b)] = n
		p.cells += 4 + len(b)/8
	}
	return n
}
