package device

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"stalloc/internal/driver"
)

// Rule says which calls fail and how.
type Rule struct {
	Kind Kind // or AnyCall
	// Nth is the one call that fails, counted from 1 since the rule was set.
	// If it is 0, Chance decides.
	Nth int
	// Chance is the part of the calls that fail, at random. 0 means all.
	Chance float64
	Code   int // the driver error, such as driver.CodeOutOfMemory
}

// Fault wraps a device and makes calls fail: a refused call does not reach the
// device, and its error is a *driver.Error as the driver would give it.
type Fault struct {
	around

	mu       sync.Mutex
	rules    []Rule
	seen     []int // calls by rule
	random   *rand.Rand
	injected int
}

// NewFault makes calls of d fail by the rules; the seed decides those left to
// chance, so that the same calls in the same order fail alike again.
func NewFault(d Device, seed uint64, rules ...Rule) *Fault {
	f := &Fault{random: rand.New(rand.NewPCG(seed, 0))}
	f.around = around{d, f}
	f.Set(rules...)
	return f
}

// Set replaces the rules and starts counting calls anew.
func (f *Fault) Set(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	f.seen = make([]int, len(rules))
}

// Injected returns how many calls were made to fail so far.
func (f *Fault) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

func (f *Fault) before(c *Call) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for i, r := range f.rules {
		if r.Kind != c.Kind && r.Kind != AnyCall {
			continue
		}
		f.seen[i]++
		if err == nil && f.hits(r, f.seen[i]) {
			f.injected++
			err = fmt.Errorf("injected fault: %w", &driver.Error{Call: c.Kind.Driver(), Code: r.Code})
		}
	}
	return err
}

func (f *Fault) hits(r Rule, n int) bool {
	if r.Nth != 0 {
		return n == r.Nth
	}
	return r.Chance == 0 || f.random.Float64() < r.Chance
}

func (f *Fault) after(*Call) {}
