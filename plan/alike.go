package plan

// Alike reports whether two steps, by stream ordinal, have the same structure for
// the most part: nearly as many requests, and most of them in the same pattern of
// requests and lives. What they may differ in is what a plan of several steps learns: sizes,
// and requests that are left out or come in addition. Steps of one program whose
// sizes vary are alike; its training and its evaluation are not, nor are a step with
// an evaluation and one without: their sizes do not vary, and a part is missing.
func Alike(a, b []*Step) bool {
	var total, same, equal, inner, other int64
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
		shared, ofSize := x.shared(y)
		total, same, equal = total+n, same+shared, equal+ofSize
		inner, other = inner+x.inner(), other+y.inner()
	}
	if equal*rigid >= same*(rigid-1) && min(inner, other)*missing < max(inner, other)*(missing-1) {
		return false
	}
	return total > 0 && 4*same >= 3*total
}

// A part is missing if of the requests that two steps share all but one in so many
// are of the same size, and one of them has more than one in so many too few. What
// the first step makes for good does not count.
const (
	rigid   = 100
	missing = 10
)

// inner counts the blocks that begin and end within the step.
func (s *Step) inner() (n int64) {
	for _, b := range s.Blocks {
		if s.transient(b) {
			n++
		}
	}
	return n
}

// shared counts the requests of s that have a counterpart in another step, and those
// of them that have its size.
func (s *Step) shared(other *Step) (n, ofSize int64) {
	for i, j := range align(s.tokens(), other.tokens()) {
		if j == unaligned || s.Ops[i].Free {
			continue
		}
		n++
		if s.Blocks[s.Ops[i].Block].Size == other.Blocks[other.Ops[j].Block].Size {
			ofSize++
		}
	}
	return n, ofSize
}
