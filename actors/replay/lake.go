package replay

import (
	"context"
	"fmt"

	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/internal/cost"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// lake is a Target over GMLake's algorithm. It does what the algorithm asks for at once
// and counts the driver calls that the released code makes for it: a map and a grant of
// rights for each chunk, and cudaMalloc for the small pool, whose segments this one makes
// of a chunk each.
type lake struct {
	pool     *gmlake.Pool
	capacity mem.Bytes
	calls    int64
	micros   float64
	peak     mem.Bytes // between events: the original does not count what it made in vain
	blocks   map[int64]mem.Addr
	fences   map[int64][]driver.Fence // of freed blocks that wait
	ops      []engine.Op
	// Chunks and addresses of the small pool.
	small   map[engine.Index]bool
	smallAt map[mem.Addr]bool
}

func newLake(_ context.Context, _ *trace.Trace, c Config) (Target, error) {
	if c.FragLimit < 0 {
		return nil, fmt.Errorf("a least size of %d bytes to stitch: give none or more", int64(c.FragLimit))
	}
	config := gmlake.DefaultConfig()
	config.FragLimit = c.FragLimit
	return &lake{
		pool: gmlake.New(config), capacity: c.Capacity,
		blocks: map[int64]mem.Addr{}, fences: map[int64][]driver.Fence{},
		small: map[engine.Index]bool{}, smallAt: map[mem.Addr]bool{},
	}, nil
}

func (l *lake) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	if size == 0 {
		return nil
	}
	answer := l.step(engine.Event{Kind: engine.EvAlloc, Req: 1, Size: size, Stream: stream})
	if answer.Kind != engine.OpGrant {
		return driver.ErrOutOfMemory
	}
	l.blocks[id] = answer.Addr
	return nil
}

func (l *lake) RecordStream(id int64, stream mem.StreamID) {
	if addr, ok := l.blocks[id]; ok {
		l.step(engine.Event{Kind: engine.EvRecord, Addr: addr, Stream: stream})
	}
}

func (l *lake) FreeRequested(id int64, deferred bool) {
	addr, ok := l.blocks[id]
	if !ok {
		return
	}
	delete(l.blocks, id)
	if deferred {
		l.step(engine.Event{Kind: engine.EvRecord, Addr: addr, Stream: otherStream})
	}
	l.step(engine.Event{Kind: engine.EvFree, Addr: addr})
	for _, op := range l.ops {
		if op.Kind == engine.OpRecord {
			l.fences[id] = append(l.fences[id], op.Fence)
		}
	}
	l.step(engine.Event{Kind: engine.EvBoundary}) // the original drops at once what has to go
}

func (l *lake) FreeCompleted(id int64) {
	for _, f := range l.fences[id] {
		l.step(engine.Event{Kind: engine.EvFence, Fence: f})
	}
	delete(l.fences, id)
}

func (l *lake) EmptyCache() { l.step(engine.Event{Kind: engine.EvTrim}) }

func (l *lake) Step() Done { return Done{Calls: l.calls, TimeUS: l.micros} }

func (l *lake) Finish() (Counts, error) {
	return Counts{PeakReserved: l.peak, DriverCalls: l.calls, DriverTimeUS: l.micros}, l.pool.Check()
}

// step runs an event to its end and returns the last operation.
func (l *lake) step(ev engine.Event) (last engine.Op) {
	small := ev.Size <= mem.MiB // of a request
	for {
		l.ops = l.pool.Step(ev, l.ops[:0])
		held := l.pool.Reserved()
		last = engine.Op{}
		for i, op := range l.ops {
			if last = op; !l.perform(op, small, &held) {
				ev = engine.Event{Kind: engine.EvFailed, Failed: i, Code: driver.CodeOutOfMemory}
				last.Kind = engine.OpResume
				break
			}
			if op.Kind == engine.OpResume {
				ev = engine.Event{Kind: engine.EvResume, Req: op.Req}
			}
		}
		if last.Kind != engine.OpResume {
			l.peak = max(l.peak, l.pool.Reserved())
			return last
		}
	}
}

// perform does one operation; false: the device is full.
func (l *lake) perform(op engine.Op, small bool, held *mem.Bytes) bool {
	chunks := int64(op.Size / mem.HandleSize)
	switch op.Kind {
	case engine.OpCreate:
		*held += op.Size
		full := *held > l.capacity
		if small {
			l.count(cost.MemAlloc, 1)
			l.small[op.Handle] = !full
		} else {
			l.count(cost.Create, 1)
			if full {
				l.count(cost.Reserve, 1)
				l.count(cost.AddressFree, 1)
			}
		}
		return !full
	case engine.OpMap:
		if l.small[op.Handle] {
			l.smallAt[op.Addr] = true
		} else {
			l.count(cost.Map, 1)
		}
	case engine.OpAccess:
		if !l.smallAt[op.Addr] {
			l.count(cost.Reserve, 1)
			l.count(cost.SetAccess, chunks)
		}
	case engine.OpUnmap:
		if !l.smallAt[op.Addr] {
			l.count(cost.Unmap, chunks)
			l.count(cost.AddressFree, 1)
		}
		delete(l.smallAt, op.Addr)
	case engine.OpRelease:
		if l.small[op.Handle] {
			l.count(cost.MemFree, 1)
		} else {
			l.count(cost.Release, 1)
		}
		delete(l.small, op.Handle)
	}
	return true
}

// count adds calls of one kind, each over a chunk.
func (l *lake) count(k cost.Call, calls int64) {
	l.calls += calls
	l.micros += float64(calls) * cost.Micros(k, mem.HandleSize)
}
