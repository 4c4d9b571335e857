package exact

import (
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/firstfit"
)

// MostPairs is how many pairs of boxes that live together a search is made for: it takes 100 MB
// then.
const MostPairs = 1 << 22

// Small reports whether a search for an instance takes bearable memory.
func Small(in *dsa.Instance) bool {
	pairs, alive := int64(0), make([]int64, in.Ticks+1)
	for i := range in.IDs {
		alive[in.Lo[i]]++
		alive[in.Hi[i]]--
	}
	now := int64(0)
	// a box meets those that live when it begins, and those that begin later
	for i := range in.IDs {
		pairs += int64(in.Hi[i] - in.Lo[i]) // its entries in sections
	}
	for t := range in.Ticks {
		now += alive[t]
		pairs += now
	}
	return pairs <= MostPairs && int64(len(in.IDs))*int64(len(in.IDs)) <= 4*MostPairs
}

// Run decides for the capacity, or looks for the least: for the bound first, then halfway between
// what has failed and what was found, with more and more nodes.
func Run(in *dsa.Instance, w *dsa.Work, capacity int64, seed uint64, _ []int64) {
	firstfit.First(in, w, capacity, seed, nil)
	if w.Over() || !Small(in) {
		return
	}
	s := New(in)
	if capacity > 0 {
		at, solved := s.Race(capacity, seed, w)
		if solved && at == nil {
			w.None = true
		} else if solved {
			w.Found(at, in.Top(at))
		}
		return
	}
	Least(s, w, seed, 0)
}

// Least narrows the least capacity down, until it is proved, the work is over, or so many rounds
// did not help; 0 is no limit.
func Least(s *Search, w *dsa.Work, seed uint64, rounds int) {
	never := s.in.Bound - 1 // proved: nothing ends there
	aim := s.in.Bound
	for nodes, round := int64(firstNodes), 0; !w.Over() &&
		(rounds == 0 || round < rounds); round++ {
		at, solved := s.Round(aim, nodes, seed+uint64(round), w)
		switch {
		case solved && at != nil:
			w.Found(at, s.in.Top(at))
			round = 0
		case solved:
			never = aim
		}
		if w.Top-1 <= never {
			w.Least = true
			return
		}
		switch {
		case solved:
			aim = (never + w.Top) / 2
		case aim < w.Top-1:
			aim = min(w.Top-1, (aim+w.Top+1)/2) // easier
		default:
			aim, nodes = (never+w.Top)/2, 2*nodes
		}
		aim = max(aim, never+1)
	}
}
