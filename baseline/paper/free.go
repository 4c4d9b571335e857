package paper

import (
	"fmt"
	"maps"
	"slices"

	"stalloc/baseline"
	"stalloc/internal/cost"
	"stalloc/internal/mem"
)

// of returns a block that the region or a cell has, nil for one of the cache. Handles of the two
// are of different signs.
func (a *Allocator) of(b baseline.Block, doing string) (*block, error) {
	if b >= baseline.None {
		return nil, nil
	}
	if x := a.blocks[b]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("paper: %s of block %d: %w", doing, int64(b), baseline.ErrUnknownBlock)
}

func (a *Allocator) live(b baseline.Block, doing string) (*block, error) {
	x, err := a.of(b, doing)
	if x != nil && x.freed {
		return nil, fmt.Errorf("paper: %s of a block already freed: %w", doing,
			baseline.ErrUnknownBlock)
	}
	return x, err
}

// Free asks for a block's memory back; see baseline.Allocator.
func (a *Allocator) Free(b baseline.Block) error {
	x, err := a.live(b, "free")
	if err != nil || x == nil {
		if err == nil {
			err = a.cache.Free(b)
		}
		return err
	}
	x.freed = true
	a.own.Allocated -= mem.Round(x.asked)
	if !x.used {
		a.end(b, x)
	}
	return nil
}

// end gives back the place of a block.
func (a *Allocator) end(b baseline.Block, x *block) {
	delete(a.blocks, b)
	a.own.Active -= mem.Round(x.asked)
	a.own.Requested -= x.asked
	if x.cell {
		a.cells.give(x.from)
	} else {
		a.region.give(x.span)
	}
}

// RecordStream says that work on a stream uses a block, too.
func (a *Allocator) RecordStream(b baseline.Block, s mem.StreamID) error {
	x, err := a.live(b, "record_stream")
	if err != nil || x == nil {
		if err == nil && !a.plan.ignoring {
			err = a.cache.RecordStream(b, s)
		}
		return err
	}
	x.used = x.used || s != x.stream && !a.plan.ignoring
	return nil
}

// Defer makes a block wait for Complete after its Free.
func (a *Allocator) Defer(b baseline.Block) error {
	x, err := a.live(b, "deferral")
	if err != nil || x == nil {
		if err == nil && !a.plan.ignoring {
			err = a.cache.Defer(b)
		}
		return err
	}
	x.used = !a.plan.ignoring
	return nil
}

// Complete says that what a freed block waits for has passed.
func (a *Allocator) Complete(b baseline.Block) error {
	x, err := a.of(b, "completion")
	switch {
	case err != nil:
		return err
	case x == nil:
		return a.cache.Complete(b)
	case !x.freed:
		return fmt.Errorf("paper: completion of block %d: %w", int64(b), baseline.ErrNotFreed)
	}
	a.end(b, x)
	return nil
}

// Synchronize says that all work queued so far has passed.
func (a *Allocator) Synchronize() {
	for _, b := range slices.Sorted(maps.Keys(a.blocks)) {
		if x := a.blocks[b]; x.freed {
			a.end(b, x)
		}
	}
	a.cache.Synchronize()
}

// EmptyCache waits for all work and returns what the cache has wholly free. The region stays.
func (a *Allocator) EmptyCache() {
	a.Synchronize()
	a.cache.EmptyCache()
}

// Addr says where a live or waiting block lies.
func (a *Allocator) Addr(b baseline.Block) (baseline.Place, error) {
	x, err := a.of(b, "address")
	switch {
	case err != nil:
		return baseline.Place{}, err
	case x == nil:
		return a.cache.Addr(b)
	case x.cell:
		return baseline.Place{Space: baseline.RT, Offset: cellsAt + x.from}, nil
	}
	return baseline.Place{Space: baseline.RT, Offset: regionAt + x.from}, nil
}

// note brings the peaks up to date.
func (a *Allocator) note() {
	now := a.sum()
	a.peak.PeakAllocated = max(a.peak.PeakAllocated, now.Allocated)
	a.peak.PeakActive = max(a.peak.PeakActive, now.Active)
	a.peak.PeakRequested = max(a.peak.PeakRequested, now.Requested)
}

// sum is the statistics without peaks but the cache's.
func (a *Allocator) sum() baseline.Stats {
	s := a.cache.Stats()
	s.Allocated += a.own.Allocated
	s.Active += a.own.Active
	s.Requested += a.own.Requested
	s.Reserved += a.own.Reserved
	s.Segments += a.own.Segments
	s.OOMs += a.own.OOMs
	return s
}

// Stats are the sums over region, cells and cache.
func (a *Allocator) Stats() baseline.Stats {
	s := a.sum()
	s.PeakAllocated, s.PeakActive = a.peak.PeakAllocated, a.peak.PeakActive
	s.PeakRequested = a.peak.PeakRequested
	s.PeakReserved += a.own.Reserved // which is there before the cache has anything
	return s
}

// Calls counts the cache's driver calls, and those that took region and cells.
func (a *Allocator) Calls() baseline.Calls {
	c := a.cache.Calls()
	for k := range cost.CallKinds {
		c.Count[k] += a.calls.Count[k]
	}
	c.Micros += a.calls.Micros
	return c
}
