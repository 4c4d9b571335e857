package firstfit

import (
	"cmp"
	"slices"

	"stalloc/plan/solve/dsa"
)

// First places boxes by falling size, of equals the earlier start first, each at the lowest offset.
func First(in *dsa.Instance, w *dsa.Work, _ int64, _ uint64, _ []int64) {
	run(in, w, false)
}

// Smallest places them in that order in the smallest gap.
func Smallest(in *dsa.Instance, w *dsa.Work, _ int64, _ uint64, _ []int64) {
	run(in, w, true)
}

func run(in *dsa.Instance, w *dsa.Work, best bool) {
	p := New(in)
	p.Best = best
	at := make([]int64, len(in.IDs))
	if top, ok := p.All(BySize(in), at, w, 0); ok {
		w.Found(at, top)
	}
}

// BySize returns the boxes by falling size, of equals the earlier start first.
func BySize(in *dsa.Instance) []int32 {
	order := make([]int32, len(in.IDs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order,
		func(a, b int32) int { return cmp.Compare(in.Size[b], in.Size[a]) })
	return order
}

// entriesAUnit is how many entries of the list are looked at in a unit of work.
const entriesAUnit = 16

// All places boxes in an order, after those that are pinned, into at, and returns where the highest
// ends. It gives up when the work is over, and once that is at limit or above, if that is not 0.
func (p *Placer) All(order []int32, at []int64, w *dsa.Work, limit int64) (top int64, ok bool) {
	p.Reset()
	for box := range at {
		if p.in.Pin != nil && p.in.Pin[box] != dsa.Free {
			at[box] = p.Place(int32(box))
			top = max(top, at[box]+p.in.Size[box])
		}
	}
	paid := p.Looked
	for _, box := range order {
		if p.in.Pin != nil && p.in.Pin[box] != dsa.Free {
			continue
		}
		at[box] = p.Place(box)
		if top = max(top, at[box]+p.in.Size[box]); limit > 0 && top >= limit {
			break
		}
		if looked := p.Looked - paid; looked > 1<<14 {
			paid = p.Looked
			if !w.Do(looked / entriesAUnit) {
				return top, false
			}
		}
	}
	return top, w.Do((p.Looked-paid)/entriesAUnit) && (limit == 0 || top < limit)
}
