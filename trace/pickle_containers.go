package trace

import (
	"fmt"
	"slices"
)

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
func (p *pickle) popItems(plural bool, count int, kind valueKind) (items []value, into int64,
	err error) {
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
	p.lists[into] = grown(p.lists[into], items...)
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
		if key := items[i]; key.kind == valueWord && word(key.n) < p.keys() {
			p.set(&p.dicts[into], word(key.n), items[i+1])
		}
	}
	return nil
}

// keys returns the end of the words that are worth keeping as keys.
func (p *pickle) keys() word {
	if p.strings != nil {
		return lastKey
	}
	return wordFrames
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
		p.field = grown(p.field, moved...)
		p.cells += len(moved)
	}
	p.field = grown(p.field, v)
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
		p.memo = grown(p.memo, top[0])
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
		return p.fail("a memo entry that was stored before", fmt.Sprintf("entry %d of %d", index,
			len(p.memo)+len(p.far)))
	}
	p.push(v)
	return nil
}
