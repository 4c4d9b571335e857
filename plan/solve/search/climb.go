package search

import (
	"math"
	"math/rand/v2"

	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
)

// climb looks for weights of a descent: an evolution strategy of one parent and one child
// (Rechenberg), of which the step grows where it helps and shrinks where it does not. Every fourth
// child is a stranger: what is best has no neighbours on some steps. Where a descent takes long, a
// window is looked through first.
type climb struct {
	d    *descents
	rng  *rand.Rand
	best descent.Weights
	low  int64
	step float64
	n    int
	view *windows // of a large instance
}

const (
	firstStep, leastStep = 0.4, 0.02
	grow, shrink         = 1.5, 0.93
)

func newClimb(in *dsa.Instance, w *dsa.Work, seed uint64) *climb {
	c := &climb{d: newDescents(in, w), rng: rand.New(rand.NewPCG(seed, 2)), step: firstStep}
	if len(in.IDs) >= leastWindows*windowBoxes {
		c.view = &windows{d: c.d}
	}
	return c
}

func (c *climb) climb(units int64) {
	w := c.d.w
	for end := w.Spent + units; w.Spent < end && !w.Over(); c.n++ {
		next := c.child()
		if c.view != nil && c.low > 0 && !c.view.pass(next) {
			c.step = max(c.step*shrink, leastStep)
			continue
		}
		if !c.d.try(next) {
			return
		}
		switch top := c.d.in.Top(c.d.at); {
		case c.low > 0 && top > c.low:
			c.step = max(c.step*shrink, leastStep)
		default:
			if top < c.low {
				c.step = min(c.step*grow, 1)
			}
			c.best, c.low = next, top
		}
		c.look()
	}
}

// look opens a window where the last descent ended highest.
func (c *climb) look() {
	if c.view == nil {
		return
	}
	in, high := c.d.in, 0
	for box, at := range c.d.at {
		if at+in.Size[box] > c.d.at[high]+in.Size[high] {
			high = box
		}
	}
	c.view.open(in.Lo[high], c.best)
}

func (c *climb) child() descent.Weights {
	if c.n < len(descent.Portfolio) {
		return descent.Portfolio[c.n]
	}
	next, sum := c.best, 0.0
	for f := range next {
		if c.n%4 == 0 {
			next[f] = c.rng.NormFloat64()
		} else {
			next[f] += c.rng.NormFloat64() * c.step
		}
		sum += next[f] * next[f]
	}
	for f := range next { // only their proportions matter
		next[f] /= math.Sqrt(sum)
	}
	return next
}
