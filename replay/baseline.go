package replay

import (
	"context"
	"errors"
	"fmt"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// simulated makes the list entry of one of the allocators we are compared with.
func simulated(name string) Allocator {
	return Allocator{Name: name, New: func(_ context.Context, _ *trace.Trace, c Config) (Target,
		error) {
		sim, err := baseline.New(name, options(c))
		if err != nil {
			return nil, err
		}
		return newSimulation(sim), nil
	}}
}

// options are those of a simulated allocator.
func options(c Config) baseline.Options {
	o := baseline.Options{Capacity: c.Capacity}
	if c.held != nil {
		o.Held = func(at baseline.Place, size mem.Bytes, held bool) {
			c.held(address(at), size, held)
		}
	}
	return o
}

// simulation is a Target over one of package baseline's allocators.
type simulation struct {
	sim    baseline.Allocator
	blocks map[int64]held
	fault  error // the first error that Alloc could not return
}

func newSimulation(sim baseline.Allocator) *simulation {
	return &simulation{sim: sim, blocks: make(map[int64]held)}
}

type held struct {
	block baseline.Block
	waits bool // its free will wait for Complete
}

func (s *simulation) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	block, err := s.sim.Malloc(size, stream)
	if err == nil && block != baseline.None { // None: a request of no bytes
		s.blocks[id] = held{block: block}
	}
	return err
}

func (s *simulation) RecordStream(id int64, stream mem.StreamID) {
	if h, ok := s.blocks[id]; ok {
		s.check(id, s.sim.RecordStream(h.block, stream))
		h.waits = true
		s.blocks[id] = h
	}
}

func (s *simulation) FreeRequested(id int64, deferred bool) {
	h, ok := s.blocks[id]
	if !ok {
		return
	}
	if deferred && !h.waits {
		s.check(id, s.sim.Defer(h.block))
		h.waits = true
	}
	s.check(id, s.sim.Free(h.block))
	if h.waits {
		s.blocks[id] = h
	} else {
		delete(s.blocks, id)
	}
}

func (s *simulation) FreeCompleted(id int64) {
	h, ok := s.blocks[id]
	if !ok {
		return
	}
	delete(s.blocks, id)
	// The wait may be over already: before a flush all work is waited for, and
	// a later event of the same stream includes the earlier ones.
	if err := s.sim.Complete(h.block); !errors.Is(err, baseline.ErrUnknownBlock) {
		s.check(id, err)
	}
}

func (s *simulation) EmptyCache() { s.sim.EmptyCache() }

func (s *simulation) Step() Done { return s.done() }

func (s *simulation) done() Done {
	calls := s.sim.Calls()
	return Done{Calls: calls.Total(), TimeUS: calls.Micros, Retries: s.sim.Stats().Retries}
}

func (s *simulation) Finish() (Counts, error) {
	if err := s.sim.Check(); s.fault == nil {
		s.fault = err
	}
	calls, stats := s.sim.Calls(), s.sim.Stats()
	return Counts{
		PeakReserved: stats.PeakReserved,
		DriverCalls:  calls.Total(),
		DriverTimeUS: calls.Micros,
		Retries:      stats.Retries,
	}, s.fault
}

func (s *simulation) check(id int64, err error) {
	if err != nil && s.fault == nil {
		s.fault = fmt.Errorf("block %d: %w", id, err)
	}
}
