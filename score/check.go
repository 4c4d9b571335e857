package score

import (
	"cmp"
	"fmt"
	"slices"

	"stalloc/internal/mem"
)

// blocks are the live ones, by address and by name.
type blocks struct {
	order []block // by address
	at    map[int64]mem.Addr
	pages map[mem.Addr]int // by number: the live blocks that touch it
	bytes mem.Bytes        // of those that are not freed
}

type block struct {
	from, to mem.Addr
	id       int64
	freed    bool // by the program; other streams may still use it
}

func newBlocks() *blocks {
	return &blocks{at: make(map[int64]mem.Addr), pages: make(map[mem.Addr]int)}
}

const page = mem.Addr(mem.HandleSize)

// add adds a block, or returns what is wrong with its address.
func (b *blocks) add(id int64, at mem.Addr, size mem.Bytes) error {
	x := block{at, at + mem.Addr(mem.Round(size)), id, false}
	switch {
	case at%mem.Addr(mem.Grain) != 0:
		return fmt.Errorf("expected an address that is a multiple of %d, got %d", mem.Grain, at)
	case x.to > 1<<63:
		return fmt.Errorf("expected a block that ends below 2^63, got one of %d bytes at %d",
			int64(size), at)
	}
	i := b.place(at)
	if i > 0 && b.order[i-1].to > at {
		return overlap(x, b.order[i-1])
	}
	if i < len(b.order) && b.order[i].from < x.to {
		return overlap(x, b.order[i])
	}
	b.order = slices.Insert(b.order, i, x)
	b.at[id] = at
	b.bytes += mem.Bytes(x.to - x.from)
	for p := x.from / page; p <= (x.to-1)/page; p++ {
		b.pages[p]++
	}
	return nil
}

// under returns the blocks that overlap a range.
func (b *blocks) under(at mem.Addr, size mem.Bytes) (ids []int64) {
	i := b.place(at)
	if i > 0 && b.order[i-1].to > at {
		i--
	}
	for ; i < len(b.order) && b.order[i].from < at+mem.Addr(mem.Round(size)); i++ {
		ids = append(ids, b.order[i].id)
	}
	return ids
}

func overlap(x, other block) error {
	return fmt.Errorf("block %d at [%d, %d) overlaps block %d at [%d, %d), which is live", x.id,
		x.from, x.to, other.id, other.from, other.to)
}

// place is the index in the order of a block at the address, or where it would be inserted.
func (b *blocks) place(at mem.Addr) int {
	i, _ := slices.BinarySearchFunc(b.order, at,
		func(x block, at mem.Addr) int { return cmp.Compare(x.from, at) })
	return i
}

// free notes that a block's free was asked for.
func (b *blocks) free(id int64) {
	if at, ok := b.at[id]; ok {
		x := &b.order[b.place(at)]
		x.freed = true
		b.bytes -= mem.Bytes(x.to - x.from)
	}
}

// remove removes a block, if there is one of that id.
func (b *blocks) remove(id int64) {
	at, ok := b.at[id]
	if !ok {
		return
	}
	delete(b.at, id)
	i := b.place(at)
	x := b.order[i]
	b.order = slices.Delete(b.order, i, i+1)
	if !x.freed {
		b.bytes -= mem.Bytes(x.to - x.from)
	}
	for p := x.from / page; p <= (x.to-1)/page; p++ {
		if b.pages[p]--; b.pages[p] == 0 {
			delete(b.pages, p)
		}
	}
}

// touched is the memory of the pages that live blocks touch.
func (b *blocks) touched() mem.Bytes { return mem.Bytes(len(b.pages)) * mem.HandleSize }
