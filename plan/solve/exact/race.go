package exact

import (
	"math/rand/v2"

	"stalloc/plan/solve/dsa"
)

// orders are tried first. How long a search takes has a long tail that another order does not
// share, so several race, each with twice the nodes when its turn comes again.
var orders = []Order{
	{total, width, length}, {total, length, size}, {total, length, width}, {total, width, size},
	{total, area, length}, {total, size, length}, {overlaps, total, size}, {length, total, size},
}

const firstNodes = 25_000

// Race decides whether an instance fits below a capacity: it says so in solved, unless the work is
// over before. The offsets, if there are any, are valid until the next call. After the orders
// that serve best come random ones.
func (s *Search) Race(capacity int64, seed uint64, work *dsa.Work) (at []int64, solved bool) {
	for nodes := int64(firstNodes); ; nodes *= 2 {
		if at, solved := s.Round(capacity, nodes, seed, work); solved || work.Over() {
			return at, solved
		}
	}
}

// Round has every order try once, with so many nodes each.
func (s *Search) Round(capacity, nodes int64, seed uint64, work *dsa.Work) (at []int64,
	solved bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(nodes)))
	for i := range len(orders) + 2 {
		var order Order
		if i < len(orders) {
			order = orders[i]
		} else {
			for _, f := range rng.Perm(int(numFeatures)) {
				order = append(order, feature(f))
			}
		}
		if at, solved := s.Fits(capacity, order, nodes, work); solved || work.Over() {
			return at, solved
		}
	}
	return nil, false
}
