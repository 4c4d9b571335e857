package device

import (
	"slices"
	"strings"
	"sync"
)

// Trace wraps a device and remembers every call, for tests that compare what a
// component does with what it should do. It keeps all of them: it is no tool
// for long runs.
type Trace struct {
	around

	mu  sync.Mutex
	log []Call
}

// NewTrace logs the calls of d in the order in which they end.
func NewTrace(d Device) *Trace {
	t := &Trace{}
	t.around = around{d, t}
	return t
}

// Calls returns the calls so far.
func (t *Trace) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.log)
}

// Take returns the calls so far and forgets them.
func (t *Trace) Take() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.log
	t.log = nil
	return log
}

// String prints the calls so far, one a line.
func (t *Trace) String() string {
	var b strings.Builder
	for _, c := range t.Calls() {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func (t *Trace) before(*Call) error { return nil }

func (t *Trace) after(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, *c)
}
