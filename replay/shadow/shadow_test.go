package shadow

import (
	"testing"

	"stalloc/actors"
	"stalloc/actors/step"
	"stalloc/baseline"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
	"stalloc/trace"
)

// kit is an allocator over a simulated device, which plans at the boundaries themselves.
type kit struct {
	*actors.Local
	t *testing.T
}

func newKit(t *testing.T, opts actors.Options) *kit {
	t.Helper()
	opts.Inline = true
	l, err := actors.OpenLocal(sim.New(sim.Config{Capacity: 8 * mem.GiB, Manual: true}), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &kit{l, t}
}

func (k *kit) malloc(size mem.Bytes) mem.Addr {
	k.t.Helper()
	at, err := k.Malloc(0, size)
	if err != nil {
		k.t.Fatal(err)
	}
	return at
}

func (k *kit) release(at mem.Addr) {
	k.t.Helper()
	if err := k.Release(at); err != nil {
		k.t.Fatal(err)
	}
}

// play asks for blocks of these sizes, all live at once, and frees them.
func (k *kit) play(sizes ...mem.Bytes) {
	k.t.Helper()
	var live []mem.Addr
	for _, size := range sizes {
		live = append(live, k.malloc(size))
	}
	for _, at := range live {
		k.release(at)
	}
}

func (k *kit) boundary() {
	k.t.Helper()
	if err := k.Step(); err != nil {
		k.t.Fatal(err)
	}
}

// tens are distinct sizes of some MiB.
func tens(n int) (sizes []mem.Bytes) {
	for i := range n {
		sizes = append(sizes, mem.MiB*10+mem.Bytes(i)*mem.KiB)
	}
	return sizes
}

// TestNativeSaysNothingOfAnotherRun: what was not simulated is not told.
func TestNativeSaysNothingOfAnotherRun(t *testing.T) {
	step := func(k *kit) actors.Native {
		k.play(tens(3)...)
		k.boundary()
		return k.Stats().Native
	}
	k := newKit(t, actors.Options{Shadow: New})
	if n := k.Stats().Native; n != (actors.Native{}) {
		t.Errorf("before the first step: %+v", n)
	}
	// Requests of 10 MiB and more: each has a segment, of a multiple of 2 MiB.
	if n := step(k); n.PeakReserved != 34*mem.MiB || n.Steps != 1 || n.OutOfMemory {
		t.Errorf("after the first step: %+v", n)
	}
	large := k.malloc(100 * mem.MiB)
	if n := k.Stats().Native; n.PeakReserved != 0 {
		t.Errorf("more is live than was simulated: %+v", n)
	}
	k.release(large)
	if n := step(k); n.PeakReserved < 100*mem.MiB || n.Steps != 2 {
		t.Errorf("now it was: %+v", n)
	}
	if _, err := k.Serve(0, 7, mem.MiB); err != nil {
		t.Fatal(err)
	}
	if n := step(k); n != (actors.Native{}) {
		t.Errorf("there are private pools: %+v", n)
	}
	if n := step(newKit(t, actors.Options{})); n != (actors.Native{}) {
		t.Errorf("nobody has asked: %+v", n)
	}
}

// TestNativeSeesEmptiedCaches: the program empties native's cache as well.
func TestNativeSeesEmptiedCaches(t *testing.T) {
	k := newKit(t, actors.Options{Shadow: New})
	k.play(100 * mem.MiB)
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	k.play(110 * mem.MiB)
	k.boundary()
	if n := k.Stats().Native; n.PeakReserved != 110*mem.MiB {
		t.Errorf("%+v, want the larger of both and not the sum", n)
	}
}

// TestNativeEndsWhereStepsAreLost: what was found before is told as long as it is of the run.
func TestNativeEndsWhereStepsAreLost(t *testing.T) {
	for what, spoil := range map[string]func(*Shadow, *step.Observed){
		"events were lost":      func(_ *Shadow, o *step.Observed) { o.Lost = 1 },
		"steps were dropped":    func(_ *Shadow, o *step.Observed) { o.Gap = true },
		"too many were seen":    func(x *Shadow, _ *step.Observed) { x.events = mostSimulated },
		"it is too far behind":  func(x *Shadow, _ *step.Observed) { x.waiting.Store(mostWaiting) },
		"a free is of no block": nil,
	} {
		var x *Shadow
		k := newKit(t, actors.Options{Shadow: func(env actors.ShadowEnv) actors.Shadow {
			made := New(env)
			x = made.(*Shadow)
			return made
		}})
		k.play(tens(3)...)
		k.boundary()
		want := uint64(1)
		o, s := &step.Observed{}, &step.Step{Changes: []step.Change{
			{Kind: schedule.EventMiss, Block: 100, Size: mem.MiB}}}
		if spoil != nil {
			spoil(x, o)
		} else {
			s.Changes[0].Kind, want = schedule.EventFree, 0
		}
		x.Follow(o, s)
		k.play(tens(3)...)
		k.boundary()
		if n := k.Stats().Native; n.Steps != want || !x.over.Load() {
			t.Errorf("%s: %+v, want %d steps", what, n, want)
		}
	}
}

// TestNativeBeside: the simulation goes on beside the program, and ends with the device.
func TestNativeBeside(t *testing.T) {
	l, err := actors.OpenLocal(sim.New(sim.Config{Capacity: 8 * mem.GiB}),
		actors.Options{Shadow: New})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{l, t}
	for range 50 {
		k.play(tens(3)...)
		k.boundary()
	}
	if err := k.Retire(); err != nil {
		t.Fatal(err)
	}
	if n := k.Stats().Native; n.Steps != 50 || n.PeakReserved != 34*mem.MiB {
		t.Errorf("%+v", n)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkNative is the simulation of a recorded run, by the event.
func BenchmarkNative(b *testing.B) {
	tr, err := trace.ReadFile("../../tests/traces/qwen2moe_recompute.csv.gz")
	if err != nil {
		b.Fatal(err)
	}
	o := &step.Observed{Streams: map[uint16]mem.StreamID{1: 0}}
	sizes := map[int64]uint64{}
	for _, e := range tr.Events {
		kind := schedule.EventMiss
		switch e.Kind {
		case trace.Alloc:
			sizes[e.ID] = uint64(mem.Round(e.Size) / mem.Grain)
		case trace.FreeRequested:
			kind = schedule.EventFree
		default:
			continue
		}
		o.Events = append(o.Events, schedule.EventOf(kind, uint64(e.ID)<<20, sizes[e.ID], 1))
	}
	r := step.Reader{Keep: true}
	s := r.Read(o, 0, 0)
	for b.Loop() {
		x := &Shadow{blocks: map[int]baseline.Block{},
			sim: baseline.NewNative(baseline.Options{Capacity: 80 * mem.GiB})}
		if err := x.simulate(s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(s.Changes)), "ns/event")
}
