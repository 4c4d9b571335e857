package stream

import "stalloc/internal/mem"

// Find returns the block of the program's that contains an address: a slot or a guest that
// lives and was not freed. It looks at all of them.
func (t *Tape) Find(addr mem.Addr) (start mem.Addr, size mem.Bytes, found bool) {
	offset := uint64(addr) - t.State.Base
	for _, a := range t.Leave() {
		from, n := uint64(a.Slot.Offset), mem.Round(mem.Bytes(a.Asked))
		if a.Flags&FlagFreed == 0 && offset-from < uint64(n) {
			return mem.Addr(t.State.Base + from), n, true
		}
	}
	return 0, 0, false
}
