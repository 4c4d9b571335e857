package actors

import (
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/actors/stream"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// unplanned says what is switched off where nothing is to be planned.
var unplanned = map[bool]without.Set{true: without.Plans}

// kit is an allocator over a simulated device on which work ends only when told.
type kit struct {
	*Local
	t   testing.TB
	gpu *sim.Device
}

// newKit plans at the boundaries themselves.
func newKit(t testing.TB, opts Options) *kit {
	t.Helper()
	k, _ := newFaultyKit(t, opts)
	return k
}

// newFaultyKit is a kit whose driver calls can be made to fail.
func newFaultyKit(t testing.TB, opts Options) (*kit, *devicetest.Fault) {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: 8 * mem.GiB, Manual: true})
	fault := devicetest.NewFault(gpu, 1)
	opts.Inline = true
	l, err := OpenLocal(fault, opts)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{l, t, gpu}
	t.Cleanup(func() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, fault
}

func (k *kit) malloc(size mem.Bytes) mem.Addr {
	k.t.Helper()
	addr, err := k.Malloc(0, size)
	if err != nil {
		k.t.Fatal(err)
	}
	return addr
}

func (k *kit) release(addrs ...mem.Addr) {
	k.t.Helper()
	for _, addr := range addrs {
		if err := k.Release(addr); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *kit) boundary() {
	k.t.Helper()
	if err := k.Step(); err != nil {
		k.t.Fatal(err)
	}
	if err := k.Check(); err != nil {
		k.t.Fatal(err)
	}
}

// play asks for blocks of these sizes, all live at once, and frees them.
func (k *kit) play(sizes ...mem.Bytes) {
	k.t.Helper()
	var addrs []mem.Addr
	for _, size := range sizes {
		addrs = append(addrs, k.malloc(size))
	}
	k.release(addrs...)
}

// learn repeats a step until a plan serves it.
func (k *kit) learn(sizes ...mem.Bytes) {
	k.t.Helper()
	for range 20 {
		before := k.Stats().Hits
		k.play(sizes...)
		if k.Stats().Hits-before == uint64(len(sizes)) {
			k.boundary()
			return
		}
		k.boundary()
	}
	k.t.Fatalf("no plan serves the step: %+v", k.Stats())
}

func (k *kit) stream() *stream.Stream { return k.streams.All()[0] }

// empty fails unless nothing is live or waits.
func (k *kit) empty() {
	k.t.Helper()
	load, _ := k.Load()
	if s := k.Stats(); load != 0 || s.Stats.Load != 0 || s.Pending != 0 {
		k.t.Fatalf("the program holds %v, the pool %v, pending are %v", load, s.Stats.Load,
			s.Pending)
	}
}

// tens are distinct sizes of some MiB.
func tens(n int) (sizes []mem.Bytes) {
	for i := range n {
		sizes = append(sizes, mem.MiB*10+mem.Bytes(i)*mem.KiB)
	}
	return sizes
}
