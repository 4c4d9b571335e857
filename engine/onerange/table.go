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
