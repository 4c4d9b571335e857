package report

import (
	"context"
	"fmt"
	"sync"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// run is a recording's replay through one allocator.
type run struct {
	name     string
	result   replay.Result
	reserved []mem.Bytes // by event
	at       []mem.Addr  // by block
	held     []extent    // nil where addresses are not memory
	served   []served    // by block
}

// served says how a request was served.
type served uint8

const (
	learning served = iota // there was no plan yet
	hit
	miss
)

// config is how stalloc is set up for a report.
func config(o Options) replay.Config {
	return replay.Config{Capacity: o.Capacity, FragLimit: replay.DefaultFragLimit, Warm: o.Warm}
}

// replayAll replays a recording through every allocator, side by side.
func replayAll(ctx context.Context, tr *trace.Trace, l *ledger, o Options) ([]*run, error) {
	runs, errs := make([]*run, len(replay.Allocators)), make([]error, len(replay.Allocators))
	var wait sync.WaitGroup
	for i, a := range replay.Allocators {
		wait.Go(func() { runs[i], errs[i] = replayOne(ctx, a, tr, l, config(o)) })
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("replay through %s: %w", replay.Allocators[i].Name, err)
		}
	}
	return runs, nil
}

func replayOne(ctx context.Context, a replay.Allocator, tr *trace.Trace, l *ledger,
	c replay.Config) (*run, error) {
	r := &run{name: a.Name, reserved: make([]mem.Bytes, len(tr.Events)),
		served: make([]served, len(l.blocks)), at: make([]mem.Addr, len(l.blocks))}
	var holds holding
	event := 0
	var err error
	r.result, err = a.Follow(ctx, tr, c, func(s replay.Seen) {
		r.reserved[s.Event], event = s.Reserved, s.Event+1
		b := l.of[s.Event]
		if b < 0 {
			return
		}
		r.at[b] = s.Addr
		switch {
		case s.Hit:
			r.served[b] = hit
		case s.Miss:
			r.served[b] = miss
		}
	}, func(at mem.Addr, size mem.Bytes, held bool) { holds.set(at, size, held, event) })
	r.held = holds.close(len(tr.Events))
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *run) summary() Allocator {
	return Allocator{
		Name: r.name, Reserved: r.result.PeakReserved, Fragmentation: r.result.Fragmentation,
		Hits: r.result.Hits, Misses: r.result.Misses, Requests: r.result.Requests,
		Calls: r.result.DriverCalls, Full: r.result.OOM,
		FirstDriverMillis:  (r.result.DriverTimeUS - r.result.SteadyDriverTimeUS) / 1e3,
		SteadyDriverMillis: r.result.SteadyDriverTimeUS / 1e3,
		SteadyMillis:       float64(r.result.SteadyTimeUS) / 1e3,
		FitsIn:             r.result.FitsIn, FullSpeedIn: r.result.FullSpeedIn,
	}
}
