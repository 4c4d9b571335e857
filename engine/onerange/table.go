package onerange

// table maps 64-bit keys to non-zero 32-bit values: open addressing with linear
// probing, at most half full. Deleting shifts the cluster back instead of
// leaving a tombstone, so a steady flow of inserts and deletes never rehashes
// and never allocates, which Go's own map does not promise.
type table struct {
	key  []uint64
	val  []uint32
	used int
	mask uint64
}

// mix spreads a key over 64 bits (the finaliser of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func newTable(capacity int) table {
	size := 16
	for size < 2*capacity {
		size *= 2
	}
	return table{key: make([]uint64, size), val: make([]uint32, size), mask: uint64(size - 1)}
}

// get returns the value of key, or zero.
func (t *table) get(key uint64) uint32 {
	for i := mix(key) & t.mask; t.val[i] != 0; i = (i + 1) & t.mask {
		if t.key[i] == key {
			return t.val[i]
		}
	}
	return 0
}

// put sets the value of key; val is not zero.
func (t *table) put(key uint64, val uint32) {
	t.makeRoom(1)
	i := mix(key) & t.mask
	for ; t.val[i] != 0; i = (i + 1) & t.mask {
		if t.key[i] == key {
			t.val[i] = val
			return
		}
	}
	t.key[i], t.val[i] = key, val
	t.used++
}

// makeRoom makes the table large enough for n more keys.
func (t *table) makeRoom(n int) {
	for 2*(t.used+n) > len(t.key) {
		t.grow()
	}
}

func (t *table) grow() {
	bigger := newTable(len(t.key))
	for i, v := range t.val {
		if v != 0 {
			bigger.put(t.key[i], v)
		}
	}
	*t = bigger
}

// del forgets key and reports whether it was there.
func (t *table) del(key uint64) bool {
	i := mix(key) & t.mask
	for ; ; i = (i + 1) & t.mask {
		if t.val[i] == 0 {
			return false
		}
		if t.key[i] == key {
			break
		}
	}
	// Close the gap: move back every later member of the cluster whose home does
	// not lie cyclically in (gap, its place].
	for j := (i + 1) & t.mask; t.val[j] != 0; j = (j + 1) & t.mask {
		home := mix(t.key[j]) & t.mask
		if (j-home)&t.mask >= (j-i)&t.mask {
			t.key[i], t.val[i] = t.key[j], t.val[j]
			i = j
		}
	}
	t.val[i] = 0
	t.used--
	return true
}

// starts finds blocks by where they begin: a table as above, with key and value in one
// word, so that a look costs one line of the cache.
type starts struct {
	cell  []uint64 // at << numberBits | block
	used  int
	shift uint32 // of a hash, so that it is an index
}

// numberBits is what the 33 bits of a place leave for the number of a block.
const numberBits = 64 - startBits

func newStarts(capacity int) starts {
	bits := 4
	for 1<<bits < 2*capacity {
		bits++
	}
	return starts{cell: make([]uint64, 1<<bits), shift: uint32(64 - bits)}
}

// home is where the search for a place begins.
func (t *starts) home(at uint64) int { return int(at * 0x9e3779b97f4a7c15 >> t.shift) }

func (t *starts) next(i int) int { return (i + 1) & (len(t.cell) - 1) }

// get returns the block that begins at a place, or zero.
func (t *starts) get(at unit) uint32 {
	for i := t.home(uint64(at)); t.cell[i] != 0; i = t.next(i) {
		if t.cell[i]>>numberBits == uint64(at) {
			return uint32(t.cell[i] & (1<<numberBits - 1))
		}
	}
	return 0
}

// put adds a block at a place where none begins.
func (t *starts) put(at unit, b uint32) {
	t.makeRoom(1)
	i := t.home(uint64(at))
	for t.cell[i] != 0 {
		i = t.next(i)
	}
	t.cell[i] = uint64(at)<<numberBits | uint64(b)
	t.used++
}

// makeRoom makes the table large enough for n more blocks.
func (t *starts) makeRoom(n int) {
	for 2*(t.used+n) > len(t.cell) {
		bigger := newStarts(len(t.cell))
		for _, c := range t.cell {
			if c != 0 {
				bigger.put(unit(c>>numberBits), uint32(c&(1<<numberBits-1)))
			}
		}
		*t = bigger
	}
}

// del forgets the block that begins at a place.
func (t *starts) del(at unit) {
	i := t.home(uint64(at))
	for t.cell[i]>>numberBits != uint64(at) {
		i = t.next(i)
	}
	mask := len(t.cell) - 1
	for j := t.next(i); t.cell[j] != 0; j = t.next(j) {
		if home := t.home(t.cell[j] >> numberBits); (j-home)&mask >= (j-i)&mask {
			t.cell[i] = t.cell[j]
			i = j
		}
	}
	t.cell[i] = 0
	t.used--
}
