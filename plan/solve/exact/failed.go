package exact

// What is left to place, and how low each of it may lie, is all that decides whether it can be
// placed. Different placements of the others come to the same: the second time that is known. A
// table keeps what has failed, by a sum of 64 bits over what is left; two states with one sum are
// not told apart, which no search is long enough to meet.

// failure is that nothing was found for a state from a last offset and rank on.
type failure struct {
	key  uint64
	last int64
	rank int64
	try  int32 // in which this was
}

const failures = 1 << 16

// state is what a box adds to the sum.
func state(box int32, least int64) uint64 {
	x := (uint64(box) + 1) * 0x9e3779b97f4a7c15
	x ^= uint64(least) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xff51afd7ed558ccd
	return x ^ x>>29
}

// failed reports whether a state has failed that could be continued in at least as many ways.
func (s *Search) failed(key uint64, last int64, rank int64) bool {
	f := &s.table[key%failures]
	return f.key == key && f.try == s.try && (f.last < last || f.last == last && f.rank <= rank)
}

func (s *Search) fail(key uint64, last int64, rank int64) {
	s.table[key%failures] = failure{key, last, rank, s.try}
}
