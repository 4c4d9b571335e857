package report

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// reason says how a request came to be served as it was. The recording tells it, not
// the allocator: what a request has in common with the steps before.
type reason uint8

const (
	byPlan reason = iota
	noPlan
	freedLate
	newSize
	moreOften
	otherwise
)

var reasons = [...]string{
	byPlan:    "served by the plan",
	noPlan:    "there was no plan yet",
	freedLate: "its free waits for another stream",
	newSize:   "no earlier step asked for this size",
	moreOften: "asked for more often than in any earlier step",
	otherwise: "known, but in another order, or its place was still taken",
}

// Miss is one reason for which requests were not served by a plan.
type Miss struct {
	Why    string    `json:"why"`
	Count  int       `json:"count"`
	Bytes  mem.Bytes `json:"bytes"`
	Sizes  []Size    `json:"sizes"` // the largest by bytes
	Reason int       `json:"reason"`
}

// Size is how often a size was asked for.
type Size struct {
	Size  mem.Bytes `json:"size"`
	Count int       `json:"count"`
}

// explain finds the reason of every request.
func (l *ledger) explain(ours *run) []reason {
	type key struct {
		stream mem.StreamID
		size   mem.Bytes
	}
	why := make([]reason, len(l.blocks))
	most, now, step := map[key]int{}, map[key]int{}, -1
	for i := range l.blocks {
		b := &l.blocks[i]
		if at := l.stepAt(b.begin); at != step {
			for k, n := range now {
				most[k] = max(most[k], n)
			}
			clear(now)
			step = at
		}
		k := key{b.stream, mem.Round(b.size)}
		now[k]++
		switch {
		case ours.served[i] == hit:
		case ours.served[i] == learning:
			why[i] = noPlan
		case b.late:
			why[i] = freedLate
		case most[k] == 0:
			why[i] = newSize
		case now[k] > most[k]:
			why[i] = moreOften
		default:
			why[i] = otherwise
		}
	}
	return why
}

// countMisses sums up by reason, the most frequent first.
func countMisses(l *ledger, why []reason) []Miss {
	var all [len(reasons)]Miss
	sizes := make([]map[mem.Bytes]int, len(reasons))
	for i, r := range why {
		if r == byPlan {
			continue
		}
		size := l.blocks[i].size
		m := &all[r]
		m.Why, m.Reason = reasons[r], int(r)
		m.Count++
		m.Bytes += size
		if sizes[r] == nil {
			sizes[r] = make(map[mem.Bytes]int)
		}
		sizes[r][size]++
	}
	var found []Miss
	for r, m := range all {
		if m.Count == 0 {
			continue
		}
		for size, count := range sizes[r] {
			m.Sizes = append(m.Sizes, Size{size, count})
		}
		slices.SortFunc(m.Sizes, func(a, b Size) int {
			return cmp.Or(cmp.Compare(b.Size*mem.Bytes(b.Count), a.Size*mem.Bytes(a.Count)),
				cmp.Compare(b.Size, a.Size))
		})
		m.Sizes = m.Sizes[:min(len(m.Sizes), 4)]
		found = append(found, m)
	}
	slices.SortStableFunc(found, func(a, b Miss) int { return cmp.Compare(b.Count, a.Count) })
	return found
}
