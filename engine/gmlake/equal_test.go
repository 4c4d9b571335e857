package gmlake

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"stalloc/baseline"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// twin runs the pool and the simulation of package baseline side by side. Every
// driver call of the pool succeeds but for creates beyond the capacity.
type twin struct {
	pool     *Pool
	sim      baseline.Allocator
	capacity int
	at       map[int64]mem.Addr
	blocks   map[int64]baseline.Block
	fences   map[int64][]driver.Fence
	handles  int
	ops      []engine.Op
}

func newTwin(t *testing.T, cfg Config, capacity mem.Bytes) *twin {
	sim, err := baseline.New("gmlake", baseline.Options{
		Capacity: capacity, FragLimit: max(cfg.FragLimit, 1), DefragLevel: cfg.DefragLevel, ReuseLimit: cfg.ReuseLimit, AutoGC: cfg.AutoGC,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &twin{
		pool: New(cfg), sim: sim, capacity: int(capacity / pageSize),
		at: map[int64]mem.Addr{}, blocks: map[int64]baseline.Block{}, fences: map[int64][]driver.Fence{},
	}
}

// step runs one event; false: the request was refused.
func (w *twin) step(ev engine.Event, id int64) bool {
	for {
		w.ops = w.pool.Step(ev, w.ops[:0])
		again := false
		for i, op := range w.ops {
			switch op.Kind {
			case engine.OpCreate:
				if w.handles == w.capacity {
					ev, again = engine.Event{Kind: engine.EvFailed, Failed: i, Code: driver.CodeOutOfMemory}, true
				} else {
					w.handles++
				}
			case engine.OpRelease:
				w.handles--
			case engine.OpRecord:
				w.fences[id] = append(w.fences[id], op.Fence)
			case engine.OpGrant:
				w.at[id] = op.Addr
			case engine.OpResume:
				ev, again = engine.Event{Kind: engine.EvResume, Req: op.Req}, true
			case engine.OpRefuse:
				return false
			}
			if again && ev.Kind == engine.EvFailed {
				break
			}
		}
		if !again {
			return true
		}
	}
}

func (w *twin) alloc(id int64, size mem.Bytes, s mem.StreamID) error {
	b, err := w.sim.Malloc(size, s)
	ok := w.step(engine.Event{Kind: engine.EvAlloc, Req: uint64(id), Size: size, Stream: s}, id)
	if ok != (err == nil) || err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
		return fmt.Errorf("%v on stream %d: granted is %v, the simulation says %v", size, s, ok, err)
	}
	if ok {
		w.blocks[id] = b
	}
	return nil
}

func (w *twin) free(id int64) error {
	w.step(engine.Event{Kind: engine.EvFree, Addr: w.at[id]}, id)
	err := w.sim.Free(w.blocks[id])
	delete(w.blocks, id)
	return err
}

// compare holds the counts against each other. Physical memory first: the
// simulation's reserved memory leaves out what doomed sBlocks keep.
func (w *twin) compare() error {
	s, want := w.pool.Stats(), w.sim.Stats()
	if got := mem.Bytes(s.Handles) * pageSize; got != want.Physical || w.handles != s.Handles {
		return fmt.Errorf("%v held, the simulation holds %v", got, want.Physical)
	}
	if s.Load < want.Requested {
		return fmt.Errorf("%v live, %v requested in the simulation", s.Load, want.Requested)
	}
	return nil
}

// TestEqualsSimulation: on random runs, with and without enough memory, the pool
// holds as much as the simulation at every moment, and refuses the same requests.
// The simulation itself is held to recorded runs of the original.
func TestEqualsSimulation(t *testing.T) {
	stitches, evicted, refused := uint64(0), uint64(0), uint64(0)
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := DefaultConfig()
		cfg.FragLimit = []mem.Bytes{0, 2 * mem.MiB, 16 * mem.MiB, 64 * mem.MiB}[rng.IntN(4)]
		cfg.DefragLevel = []int{0, 0, 0, 1, 2}[rng.IntN(5)]
		cfg.ReuseLimit = []float64{1, 1.5, 3, 10}[rng.IntN(4)]
		cfg.AutoGC = []mem.Bytes{1000 * mem.GiB, 256 * mem.MiB, 2 * mem.GiB}[rng.IntN(3)]
		capacity := []mem.Bytes{8 * mem.GiB, 300 * mem.MiB, 120 * mem.MiB, 640 * mem.MiB}[rng.IntN(4)]
		w := newTwin(t, cfg, capacity)
		var live []int64
		for n := int64(1); n < 500; n++ {
			var err error
			switch k := rng.IntN(100); {
			case k < 52 || len(live) == 0:
				size := mem.Bytes(1+rng.IntN(1<<10)) << rng.IntN(17)
				if err = w.alloc(n, size, mem.StreamID(max(rng.IntN(6)-4, 0))); w.blocks[n] != 0 || err == nil && w.at[n] != 0 {
					live = append(live, n)
				}
			case k < 99:
				i := rng.IntN(len(live))
				err = w.free(live[i])
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				w.step(engine.Event{Kind: engine.EvBoundary}, 0) // doomed sBlocks go
			default:
				w.sim.EmptyCache()
				w.step(engine.Event{Kind: engine.EvTrim}, 0)
			}
			if err == nil {
				err = w.compare()
			}
			if err == nil && n%16 == 0 {
				err = w.pool.Check()
			}
			if err != nil {
				t.Fatalf("seed %d, %+v, capacity %v, event %d: %v", seed, cfg, capacity, n, err)
			}
		}
		s := w.pool.Stats()
		stitches, evicted, refused = stitches+s.Stitches, evicted+s.Evicted, refused+s.Refused
	}
	t.Logf("%d stitches, %d sBlocks dropped, %d requests refused", stitches, evicted, refused)
	if stitches < 100 || evicted < 100 || refused < 100 {
		t.Error("the runs miss what they are for")
	}
}

// TestReplay: on the recorded traces the peaks are equal too, under Check.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("../../tests/traces/*.csv.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces in ../../tests/traces: %v", err)
	}
	for _, f := range files {
		tr, err := trace.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []mem.Bytes{512 * mem.MiB, 64 * mem.MiB} {
			cfg := DefaultConfig()
			cfg.FragLimit = limit
			w := newTwin(t, cfg, 141*mem.GiB)
			if err := w.replay(tr); err != nil {
				t.Fatalf("%s, fragLimit %v: %v", tr.Name, limit, err)
			}
			s, want := w.pool.Stats(), w.sim.Stats()
			t.Logf("%-20s fragLimit %4v: peak reserved %v, the simulation's %v; %d stitches, %d reuses and fits, %d maps",
				tr.Name, limit, s.PeakReserved(), want.PeakReserved, s.Stitches, s.Fits, s.Maps)
			if s.PeakReserved() != want.PeakReserved || s.PeakHeld != tr.PeakLoad() {
				t.Errorf("%s, fragLimit %v: peak reserved %v, the simulation's %v; peak load %v, the trace's %v",
					tr.Name, limit, s.PeakReserved(), want.PeakReserved, s.PeakHeld, tr.PeakLoad())
			}
		}
	}
}

// otherStream stands for the streams that record_stream named: traces do not say.
const otherStream = 1 << 20

func (w *twin) replay(tr *trace.Trace) error {
	for i, ev := range tr.Events {
		var err error
		switch ev.Kind {
		case trace.Alloc:
			err = w.alloc(ev.ID, ev.Size, ev.Stream)
		case trace.FreeRequested:
			if i+1 == len(tr.Events) || tr.Events[i+1].Kind != trace.FreeCompleted || tr.Events[i+1].ID != ev.ID {
				b := w.blocks[ev.ID]
				w.step(engine.Event{Kind: engine.EvRecord, Addr: w.at[ev.ID], Stream: otherStream}, ev.ID)
				w.step(engine.Event{Kind: engine.EvFree, Addr: w.at[ev.ID]}, ev.ID)
				err = errors.Join(w.sim.Defer(b), w.sim.Free(b))
			} else {
				err = w.free(ev.ID)
			}
		case trace.FreeCompleted:
			for _, f := range w.fences[ev.ID] {
				w.step(engine.Event{Kind: engine.EvFence, Fence: f}, ev.ID)
			}
			if len(w.fences[ev.ID]) > 0 {
				err = w.sim.Complete(w.blocks[ev.ID])
			}
		case trace.EmptyCache:
			w.sim.EmptyCache()
			w.step(engine.Event{Kind: engine.EvTrim}, 0)
		case trace.Mark:
			w.step(engine.Event{Kind: engine.EvBoundary}, 0)
		}
		if err == nil && i%10000 == 0 {
			err = w.pool.Check()
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return w.pool.Check()
}
