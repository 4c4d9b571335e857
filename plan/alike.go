package plan

// Alike reports whether two steps, by stream ordinal, have the same structure for
// the most part: nearly as many requests, and most of them in the same pattern of
// requests and lives. What they may differ in is what MakeIrregular learns: sizes,
// and requests that are left out or come in addition. Steps of one program whose
// sizes vary are alike; its training and its evaluation are not.
func Alike(a, b []*Step) bool {
	total, same := int64(0), int64(0)
	for ordinal := range max(len(a), len(b)) {
		x, y := of(a, ordinal), of(b, ordinal)
		if x == nil || y == nil {
			if x != y {
				return false
			}
			continue
		}
		n, m := x.Requests(), y.Requests()
		if 4*min(n, m) < 3*max(n, m) {
			return false
		}
		total += n
		same += x.shared(y)
	}
	return total > 0 && 4*same >= 3*total
}

// shared counts the requests of s that have a counterpart in another step.
func (s *Step) shared(other *Step) (n int64) {
	for i, j := range align(s.tokens(), other.tokens()) {
		if j != unaligned && !s.Ops[i].Free {
			n++
		}
	}
	return n
}
