package actors

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"stalloc/internal/mem"
)

// Stats is the state of a device's allocator.
type Stats struct {
	PoolStats
	Hits, Misses      uint64 // requests that were foreseen: served where they were wished, or elsewhere
	Steps, Generation uint64 // boundaries; plans activated
	DroppedEvents     uint64 // of steps that ended faster than the planner could look at them
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	m := &poolRequest{verb: verbStats}
	d.ask(d.pool, m)
	s := Stats{PoolStats: m.stats, Steps: d.steps.Load(), Generation: d.generation.Load(), DroppedEvents: d.inbox.lost()}
	s.Hits, s.Misses = d.Served()
	return s
}

// Served is the part of Stats that asks no actor, so that it changes nothing: the pool
// looks at its fences whenever it is asked.
func (d *Device) Served() (hits, misses uint64) {
	d.host.Lock()
	defer d.host.Unlock()
	for _, l := range *d.lanes.Load() {
		for i := range l.tapes {
			hits += l.tapes[i].Hits
			misses += l.tapes[i].Misses
		}
	}
	return hits, misses
}

// Explain says in a few lines where the device's memory is and what to try.
func (d *Device) Explain() string {
	s := d.Stats()
	var b strings.Builder
	idle := s.Reserved - s.Load - s.Pending
	fmt.Fprintf(&b, "stalloc holds %v: %v in live blocks, %v freed and waiting for other streams, %v idle in gaps or on other streams.",
		s.Reserved, s.Load, s.Pending, max(idle, 0))
	if s.LargestFree > 0 {
		fmt.Fprintf(&b, " The largest gap is %v; free memory is stitched for what is larger.", s.LargestFree)
	}
	if s.Late > 0 {
		fmt.Fprintf(&b, " The driver takes no fence on a stream that freed memory waits for (is it being captured, or gone?): %d fences are late.", s.Late)
	}
	free, total, err := d.dev.Memory()
	if err != nil {
		fmt.Fprintf(&b, " The device's own figures cannot be had: %v.", err)
		return b.String()
	}
	other := total - free - s.Reserved
	fmt.Fprintf(&b, " The device has %v, %v of it free; the CUDA context, libraries and other processes hold %v.", total, free, max(other, 0))
	text, err := d.neighbours()
	switch {
	case err == nil:
		b.WriteString(" " + text)
	case other > mem.GiB*4:
		fmt.Fprintf(&b, " Other processes on this device may be worth a look with nvidia-smi; %v.", err)
	}
	return b.String()
}

var errNotAsked = errors.New("nothing here was told how to list them")

// neighbours asks who else holds memory. What it asks is foreign code, and a
// training job must not end for an explanation.
func (d *Device) neighbours() (text string, err error) {
	if d.opts.Neighbours == nil {
		return "", errNotAsked
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("asking for them failed: %v", r)
		}
	}()
	return d.opts.Neighbours()
}

func (d *Device) logNeighbours() {
	text, err := d.neighbours()
	if err != nil {
		d.log.Info("what other processes hold is not known", zap.Error(err))
		return
	}
	d.log.Info("memory of the device at the start: " + text)
}
