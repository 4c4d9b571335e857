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

// Note adds a use: the most that was wanted, how much may be held (limit 0: any amount), and
// whether anything waited for room. If nothing did, what left was enough. Idle memory that took the
// margin does not count then, or the need would grow with each use.
func (n *Need) Note(wanted, limit mem.Bytes, waited bool) {
	need := mem.Bytes(0)
	if limit > 0 {
		need = max(wanted-limit, 0)
	}
	if !waited {
		need = min(need, slices.Max(n[:]))
	}
	copy(n[1:], n[:])
	n[0] = need
}

// Leaves returns how much more has to leave, where so much is away and leaving; not above 0:
// nothing. While others are used next, only as much leaves as those that are away will need beyond
// free memory: to unmap more would delay them.
func (n *Need) Leaves(away, leaving, free mem.Bytes, next bool) mem.Bytes {
	need := slices.Max(n[:])
	need += need/needMargin - away - leaving
	if next {
		need = min(need, away-leaving-free)
	}
	return need
}
