package residency

import (
	"slices"

	"stalloc/internal/mem"
)

// Need is how much of all idle items had to be away in the last uses of one, the latest first.
type Need [16]mem.Bytes

// needMargin is the fraction by which more leaves than was needed lately: a request that is short
// all the same waits for a copy, and perhaps for host memory to be pinned.
const needMargin = 8

// Note adds a use: the most that was wanted, how much may be held (limit 0: any amount), and the
// most that can have been short.
func (n *Need) Note(wanted, limit, most mem.Bytes) {
	copy(n[1:], n[:])
	n[0] = 0
	if limit > 0 {
		n[0] = min(max(wanted-limit, 0), most)
	}
}

// Most returns the most of the last uses.
func (n *Need) Most() mem.Bytes { return slices.Max(n[:]) }

// Leaves returns how much more has to leave, where so much is away and leaving; not above 0:
// nothing. While others are used next, only as much leaves as those that are away will need beyond
// free memory: to unmap more would delay them.
func (n *Need) Leaves(away, leaving, free mem.Bytes, next bool) mem.Bytes {
	need := n.Most()
	need += need/needMargin - away - leaving
	if next {
		need = min(need, away-leaving-free)
	}
	return need
}
