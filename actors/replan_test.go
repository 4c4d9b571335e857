package actors

import (
	"runtime"
	"testing"

	"stalloc/actors/host"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// slowHost takes several steps to make its first schedule.
type slowHost struct {
	*host.Model
	steps chan bool
	most  int // steps to take
	made  int
}

func (h *slowHost) Build(entries []schedule.Entry) *host.Schedule {
	for range h.most {
		<-h.steps
	}
	h.most = 0
	h.made++
	return h.Model.Build(entries)
}

// TestPlanIsMadeOnce: a plan that takes many steps to be made serves, and is not made again
// for those that ended meanwhile.
func TestPlanIsMadeOnce(t *testing.T) {
	h := &slowHost{Model: host.NewModel(), steps: make(chan bool), most: 8}
	d, err := Open(sim.New(sim.Config{Capacity: 8 * mem.GiB}), h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Local: NewLocal(d, h.Model), t: t}
	sizes := tens(20)
	step := func() uint64 {
		before := k.Stats().Hits
		k.play(sizes...)
		k.boundary()
		return k.Stats().Hits - before
	}
	step()
	step()
	for range 8 {
		step()
		h.steps <- true
	}
	for step() < uint64(len(sizes)) {
		runtime.Gosched() // the planner has its own goroutine: this ends, or the test's time does
	}
	for range 30 {
		if hits := step(); hits != uint64(len(sizes)) {
			t.Errorf("%d of %d requests hit", hits, len(sizes))
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if h.made != 1 {
		t.Errorf("a plan was made %d times", h.made)
	}
}

// TestOneLostStep: a step that leaves its plan costs itself. The plan serves the next one,
// and is not made again.
func TestOneLostStep(t *testing.T) {
	k := newKit(t, Options{})
	sizes := make([]mem.Bytes, 4000)
	for i := range sizes {
		sizes[i] = mem.Bytes(80+i%57) * mem.KiB
	}
	k.learn(sizes...)
	generation := k.Stats().Generation
	live := k.malloc(sizes[0])
	for range 100 { // of no planned size
		k.play(3*mem.MiB + 512)
	}
	k.release(live)
	k.boundary()
	before := k.Stats().Hits
	k.play(sizes...)
	if hits := k.Stats().Hits - before; hits != uint64(len(sizes)) {
		t.Errorf("%d of %d requests hit after the lost step", hits, len(sizes))
	}
	k.boundary()
	if n := k.Stats().Generation; n != generation {
		t.Errorf("%d plans were made for a lost step", n-generation)
	}
	k.empty()
}

// TestNewPlanOverLiveBlocks replans while a block of the old plan lives.
func TestNewPlanOverLiveBlocks(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(6)...)
	live := k.malloc(tens(6)[0])
	generation := k.Stats().Generation
	var larger []mem.Bytes
	for i := range 12 {
		larger = append(larger, 11*mem.MiB+mem.Bytes(i)*mem.KiB)
	}
	k.learn(larger...)
	if k.Stats().Generation == generation {
		t.Fatal("there is no new plan")
	}
	for _, size := range larger {
		at := k.malloc(size)
		if at < live+mem.Addr(tens(6)[0]) && live < at+mem.Addr(size) {
			t.Errorf("%#x + %v overlaps the live block at %#x", uint64(at), size, uint64(live))
		}
		defer k.release(at)
	}
	k.release(live)
}

// TestPlanOfSmallRequests: steps of small requests alone are planned, and the first
// requests of other streams are no reason to give that up.
func TestPlanOfSmallRequests(t *testing.T) {
	k := newKit(t, Options{})
	const requests = 8
	step := func() int64 {
		before := k.Stats().Hits
		for i := range requests {
			k.release(k.malloc(512 << i))
		}
		hits := k.Stats().Hits - before
		k.boundary()
		return int64(hits)
	}
	for range 10 {
		step()
	}
	if got := step(); got != requests {
		t.Fatalf("%d of %d requests hit", got, requests)
	}
	for id := range mem.StreamID(3) {
		if _, err := k.Malloc(id+7, 512); err != nil {
			t.Fatal(err)
		}
		if got := step(); got != requests {
			t.Errorf("with %d other streams %d of %d requests hit", id+1, got, requests)
		}
	}
}
