package residency

import "stalloc/internal/mem"

// Answer is in how little a step fits if its items may leave, and what that costs.
type Answer struct {
	Whole mem.Bytes // the least limit with everything on the device
	Free  mem.Bytes // the least that was found at which the program waits for nothing
	Least mem.Bytes // the least that can be kept
	Extra Nanos     // how much longer a step takes there
}

// Smallest answers for a problem, whatever its limit is. Between Free and Least, Solve tells what a
// limit costs. It fails only for a problem that Check refuses.
func Smallest(p *Problem) (Answer, error) {
	if err := p.Check(); err != nil {
		return Answer{}, err
	}
	g := newGrid(p)
	a := Answer{Least: g.least()}
	for _, t := range g.total {
		a.Whole = max(a.Whole, t)
	}
	a.Free = g.free(a.Least, a.Whole)
	at := *p
	at.Limit = a.Least
	plan, err := Solve(&at)
	a.Extra = plan.Wait
	if plan.Wait == 0 {
		a.Free = a.Least
	}
	return a, err
}

// free halves the way from a limit that may need waits to one that needs none, to a MiB or a
// thousandth.
func (g *grid) free(low, high mem.Bytes) mem.Bytes {
	c := newChooser(g)
	for high-low > max(1, min(mem.MiB, high/1000)) {
		g.limit = low + (high-low)/2
		if c.choose(orders[0]) {
			high = g.limit
		} else {
			low = g.limit
		}
	}
	return high
}
