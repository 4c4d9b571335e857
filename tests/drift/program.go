// Package drift holds programs whose steps change while they run, as training
// does in real life: layers are unfrozen, the batch grows, evaluations come in
// between, a second model is trained, a step ends in an exception. Its tests
// count the steps until the plan serves them again.
//
// A program is written against blocks, not addresses:
//
//	m := &Model{Layers: 12, Batch: 8}
//	m.Setup(p)
//	for range steps { m.Train(p); p.Step() }
//
// Program checks on the way that no two live blocks overlap in the memory behind them.
package drift

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// Block is a live block of a Program.
type Block struct {
	Addr mem.Addr
	Size mem.Bytes // rounded
}

// Program runs on a device and checks what it is given.
type Program struct {
	// Each is called behind every boundary.
	Each func()
	Err  error // the first; nothing is done behind it

	local  *actors.Local
	device *sim.Device
	watch  *sim.Watch
	live   map[Block]*sim.Watched
	Load   mem.Bytes
	Peak   mem.Bytes
	steps  []Served
	last   Served

	requests atomic.Int64 // read by actors, too: it is their clock
}

// Served counts requests, how many of them a plan served, and calls of the driver.
type Served struct{ Requests, Hits, Calls int64 }

// Bad reports whether more than one request in forty was not served at its planned offset.
func (s Served) Bad() bool { return 40*(s.Requests-s.Hits) > s.Requests }

// On returns a program without blocks, on an allocator over a simulated device.
func On(local *actors.Local, device *sim.Device) *Program {
	return &Program{local: local, device: device, watch: sim.NewWatch(device),
		live: make(map[Block]*sim.Watched)}
}

// Alloc requests a block on the default stream.
func (p *Program) Alloc(size mem.Bytes) Block {
	if p.Err != nil {
		return Block{}
	}
	addr, err := p.local.Malloc(0, size)
	if err != nil {
		p.Err = fmt.Errorf("request of %v with %v live: %w", size, p.Load, err)
		return Block{}
	}
	b := Block{addr, mem.Round(size)}
	if p.live[b], err = p.watch.Begin(addr, b.Size, 0); err != nil {
		p.Err = err
	}
	p.Load += b.Size
	p.Peak = max(p.Peak, p.Load)
	p.last.Requests++
	p.requests.Add(1)
	return b
}

// Free gives blocks back.
func (p *Program) Free(blocks ...Block) {
	for _, b := range blocks {
		if p.Err != nil {
			return
		}
		seen := p.live[b]
		if seen == nil {
			p.Err = fmt.Errorf("block %+v is not live", b)
			return
		}
		delete(p.live, b)
		p.Load -= b.Size
		p.Err = errors.Join(seen.Freed(), p.local.Release(b.Addr))
	}
}

// Trim gives idle memory back to the driver.
func (p *Program) Trim() {
	if p.Err == nil {
		p.Err = p.local.Trim(0)
	}
}

// Worked returns how long the program has computed: a moment for each request.
func (p *Program) Worked() time.Duration {
	return time.Duration(p.requests.Load()) * 100 * time.Microsecond
}

// Live returns how many blocks there are.
func (p *Program) Live() int { return len(p.live) }

// Step is a step boundary. It closes the count of the step.
func (p *Program) Step() {
	if p.Err == nil {
		p.Err = p.local.Step()
	}
	if p.Err == nil {
		p.Err = p.local.Check()
	}
	if p.Err != nil {
		return
	}
	hits, calls := int64(p.local.Stats().Hits), p.device.Stats().Calls()
	p.steps = append(p.steps, Served{p.last.Requests, hits - p.last.Hits, calls - p.last.Calls})
	p.last = Served{Hits: hits, Calls: calls}
	if p.Each != nil {
		p.Each()
	}
}

// Steps returns what was served in each step so far.
func (p *Program) Steps() []Served { return p.steps }
