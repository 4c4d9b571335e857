package trace

import (
	"encoding/binary"
	"fmt"
	"slices"
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
		p.lists = append(p.lists, nil)
		p.cells += 2
		p.push(value{kind: valueList, n: int64(len(p.lists) - 1)})
		return nil
	case opEmptyDict:
		p.dicts = append(p.dicts, dict{})
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
		return nil, p.fail(fmt.Sprintf("%d values on the stack", n), fmt.Sprintf("%d", len(p.stack)-floor))
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
	if n > uint64(longestWord) {
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
	p.push(value{kind: valueString})
	return nil
}

// tuple forgets the items: no tuple of a snapshot matters to a trace.
func (p *pickle) tuple(op byte) error {
	var err error
	switch op {
	case opTuple:
		_, err = p.popMark()
	case opTuple1, opTuple2, opTuple3:
		_, err = p.pop(int(op-opTuple1) + 1)
	}
	if err != nil {
		return err
	}
	p.push(value{kind: valueTuple})
	return nil
}

// popItems removes the items of an APPEND or SETITEM (count of them) or of
// their plural forms (up to the mark) and returns them with the container
// below, which stays on the stack.
func (p *pickle) popItems(plural bool, count int, kind valueKind) (items []value, into int64, err error) {
	if plural {
		items, err = p.popMark()
	} else {
		items, err = p.pop(count)
	}
	if err != nil {
		return nil, 0, err
	}
	below, err := p.pop(1)
	if err != nil {
		return nil, 0, err
	}
	if below[0].kind != kind {
		return nil, 0, p.fail(kind.String()+" to add to", below[0].kind.String())
	}
	p.stack = p.stack[:len(p.stack)+1]
	return items, below[0].n, nil
}

func (p *pickle) appendItems(op byte) error {
	items, into, err := p.popItems(op == opAppends, 1, valueList)
	if err != nil {
		return err
	}
	p.lists[into] = append(p.lists[into], items...)
	p.cells += len(items)
	return nil
}

func (p *pickle) setItems(op byte) error {
	items, into, err := p.popItems(op == opSetItems, 2, valueDict)
	if err != nil {
		return err
	}
	if len(items)%2 != 0 {
		return p.fail("a value for every key", fmt.Sprintf("%d keys and values", len(items)))
	}
	for i := 0; i < len(items); i += 2 {
		if key := items[i]; key.kind == valueWord && word(key.n) < lastKey {
			p.set(&p.dicts[into], word(key.n), items[i+1])
		}
	}
	return nil
}

// set stores one field. A dictionary whose fields are not the last of the
// table moves there to grow; it has fewer than lastKey, so moving is cheap.
func (p *pickle) set(d *dict, key word, v value) {
	v.key = key
	for i := d.first; i < d.end; i++ {
		if p.field[i].key == key {
			p.field[i] = v
			return
		}
	}
	if int(d.end) != len(p.field) {
		moved := slices.Clone(p.field[d.first:d.end])
		d.first = uint32(len(p.field))
		p.field = append(p.field, moved...)
		p.cells += len(moved)
	}
	p.field = append(p.field, v)
	p.cells++
	d.end = uint32(len(p.field))
}

// put stores the value on top in the memo. Pickles number their entries from
// zero; a table would let a hostile number reserve memory, so any other order
// goes to a map.
func (p *pickle) put(op byte) error {
	index := uint64(len(p.memo) + len(p.far))
	var err error
	switch op {
	case opBinPut:
		index, err = p.uint(1)
	case opLongBinPut:
		index, err = p.uint(4)
	}
	if err != nil {
		return err
	}
	top, err := p.pop(1)
	if err != nil {
		return err
	}
	p.stack = p.stack[:len(p.stack)+1]
	switch _, isFar := p.far[uint32(index)]; {
	case index < uint64(len(p.memo)):
		p.memo[index] = top[0]
	case index == uint64(len(p.memo)) && !isFar:
		p.memo = append(p.memo, top[0])
		p.cells++
	default:
		if p.far == nil {
			p.far = make(map[uint32]value)
		}
		p.far[uint32(index)] = top[0]
		p.cells += 4 // a map's entry takes about that many
	}
	return nil
}

func (p *pickle) get(op byte) error {
	width := 1
	if op == opLongBinGet {
		width = 4
	}
	index, err := p.uint(width)
	if err != nil {
		return err
	}
	if index < uint64(len(p.memo)) {
		p.push(p.memo[index])
		return nil
	}
	v, ok := p.far[uint32(index)]
	if !ok {
		return p.fail("a memo entry that was stored before", fmt.Sprintf("entry %d of %d", index, len(p.memo)+len(p.far)))
	}
	p.push(v)
	return nil
}
