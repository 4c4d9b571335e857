package stalloc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"stalloc"
	"stalloc/cuda/sim"
)

// memory is what a program believes to own: disjoint ranges.
type memory struct {
	mu     sync.Mutex
	blocks []block // by address
}

type block struct {
	addr   stalloc.Addr
	size   stalloc.Bytes
	stream stalloc.Stream
}

func (b block) end() stalloc.Addr { return b.addr + stalloc.Addr(b.size) }

func (m *memory) at(addr stalloc.Addr) int {
	i, _ := slices.BinarySearchFunc(m.blocks, addr, func(b block, a stalloc.Addr) int {
		if b.addr < a {
			return -1
		}
		return 1
	})
	return i
}

// take enters a block, unless it overlaps one.
func (m *memory) take(b block) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.at(b.addr)
	for _, j := range []int{i - 1, i} {
		if j >= 0 && j < len(m.blocks) && m.blocks[j].addr < b.end() && b.addr < m.blocks[j].end() {
			return fmt.Errorf("%+v overlaps %+v", b, m.blocks[j])
		}
	}
	m.blocks = slices.Insert(m.blocks, i, b)
	return nil
}

func (m *memory) give(b block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.at(b.addr)
	m.blocks = slices.Delete(m.blocks, i, i+1)
}

// worker is a thread of a program that does nearly the same in every step.
type worker struct {
	a      *stalloc.Allocator
	memory *memory
	stream stalloc.Stream
	sizes  []stalloc.Bytes
	random *rand.Rand
	live   []block
	gifts  chan block // blocks that another thread frees
	calm   bool       // do exactly the same in every step
}

func (w *worker) step() error {
	for _, size := range w.sizes {
		if !w.calm && w.random.IntN(50) == 0 {
			size = stalloc.Bytes(w.random.Int64N(int64(4 * stalloc.MiB)))
		}
		addr, err := w.a.Malloc(w.stream, size)
		if err != nil {
			return err
		}
		if b := (block{addr, size, w.stream}); size > 0 {
			if err := w.memory.take(b); err != nil {
				return err
			}
			w.live = append(w.live, b)
		}
		if err := w.keep(12); err != nil {
			return err
		}
	}
	if w.calm { // blocks that cross the step are left to the pool
		return w.keep(0)
	}
	return nil
}

func (w *worker) keep(n int) error {
	for len(w.live) > n {
		if err := w.end(w.live[0]); err != nil {
			return err
		}
		w.live = w.live[1:]
	}
	return nil
}

// end gives a block back: mostly at once, sometimes through another thread,
// sometimes while another stream uses it.
func (w *worker) end(b block) error {
	choice := w.random.IntN(20)
	if w.calm {
		choice = -1
	}
	switch choice {
	case 0:
		if err := w.a.Record(b.addr, w.stream+1); err != nil {
			return err
		}
	case 1:
		select {
		case w.gifts <- b:
			return nil
		default:
		}
	case 2:
		select {
		case gift := <-w.gifts:
			w.memory.give(gift)
			if err := w.a.Free(gift.addr); err != nil {
				return err
			}
		default:
		}
	}
	w.memory.give(b)
	return w.a.Free(b.addr)
}

// TestThreads runs threads that share streams through steps, and compares every
// block with all that are live. They take turns and repeat themselves until there
// is a plan, and run wild from then on.
func TestThreads(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, planning := range []stalloc.Planning{stalloc.PlanBeside, stalloc.PlanAtStep,
		stalloc.PlanNever} {
		gpu := sim.New(sim.Config{Capacity: 4 * stalloc.GiB, FenceDelay: 3})
		a := open(t, stalloc.Options{Device: gpu, Planning: planning})
		m := &memory{}
		gifts := make(chan block, 16)
		workers := make([]*worker, 4)
		for i := range workers {
			w := &worker{a: a, memory: m, gifts: gifts, stream: stalloc.Stream(i * 2 / 3),
				random: rand.New(rand.NewPCG(seed, uint64(i)))}
			for range 80 {
				w.sizes = append(w.sizes, stalloc.Bytes(w.random.Int64N(int64(3*stalloc.MiB))))
			}
			workers[i] = w
		}
		// A plan made beside the steps is there when it is there.
		deadline := time.Now().Add(time.Minute)
		calm := 5
		for n := 0; n < calm+8; n++ {
			if n == calm-1 && planning == stalloc.PlanBeside && a.Stats().Hits == 0 &&
				time.Now().Before(deadline) {
				calm++
				time.Sleep(50 * time.Millisecond) // two cores are few for both
			}
			errs := make([]error, len(workers))
			var wg sync.WaitGroup
			for i, w := range workers {
				if w.calm = n < calm; w.calm {
					errs[i] = w.step()
					continue
				}
				wg.Go(func() { errs[i] = w.step() })
			}
			wg.Wait()
			if err := errors.Join(append(errs, a.Step(), a.Check(), gpu.Check())...); err != nil {
				t.Fatalf("seed %d, planning %d: %v", seed, planning, err)
			}
		}
		s := a.Stats()
		if planned := planning != stalloc.PlanNever; planned != (s.Plans > 0) ||
			planned != (s.Hits > 0) {
			t.Errorf("planning %d: %d plans, %d hits", planning, s.Plans, s.Hits)
		}
		t.Logf("planning %d: %d requests, %d hits, %d misses, %d plans, %v of %v", planning,
			s.Requests, s.Hits, s.Misses, s.Plans, s.PeakAllocated, s.PeakReserved)
		if err := errors.Join(gpu.Violations()...); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// BenchmarkMalloc is a pair of calls that a plan serves.
func BenchmarkMalloc(b *testing.B) {
	a, err := stalloc.Open(stalloc.Options{Simulated: stalloc.GiB, Planning: stalloc.PlanAtStep})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	pair := func() {
		x, err := a.Malloc(0, stalloc.MiB)
		if err = errors.Join(err, a.Free(x)); err != nil {
			b.Fatal(err)
		}
	}
	const perStep = 1000
	step := func() {
		for range perStep {
			pair()
		}
		if err := a.Step(); err != nil {
			b.Fatal(err)
		}
	}
	for range 5 {
		step()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%perStep == perStep-1 {
			b.StopTimer()
			if err := a.Step(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		pair()
	}
	if s := a.Stats(); s.Misses > s.Hits/100 {
		b.Fatalf("%d of %d requests missed", s.Misses, s.Hits+s.Misses)
	}
}
