package device

import (
	"sync"
	"time"
)

// Counts are the calls of a device by kind.
type Counts struct {
	Calls  [Kinds]int64
	Failed [Kinds]int64 // of Calls
	Time   [Kinds]time.Duration
}

// Total returns the number of all calls and the time of all calls.
func (c Counts) Total() (calls int64, spent time.Duration) {
	for k := range Kinds {
		calls += c.Calls[k]
		spent += c.Time[k]
	}
	return calls, spent
}

// Count wraps a device and counts its calls and the time they take.
type Count struct {
	around
	clock func() time.Duration

	mu     sync.Mutex
	counts Counts
}

// NewCount counts the calls of d. The clock is read before and after each call:
// one that reads the wall clock gives measured time, the Time method of a
// simulated device gives modelled time, nil gives none. Calls in parallel each
// count all of the time that passes.
func NewCount(d Device, clock func() time.Duration) *Count {
	c := &Count{clock: clock}
	c.around = around{d, c}
	return c
}

// Counts returns the counts so far.
func (c *Count) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

func (c *Count) before(call *Call) error {
	if c.clock != nil {
		call.began = c.clock()
	}
	return nil
}

func (c *Count) after(call *Call) {
	var spent time.Duration
	if c.clock != nil {
		spent = c.clock() - call.began
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Calls[call.Kind]++
	c.counts.Time[call.Kind] += spent
	if call.Err != nil {
		c.counts.Failed[call.Kind]++
	}
}
