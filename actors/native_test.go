package actors

import (
	"testing"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
	"stalloc/trace"
)

// TestNativeSaysNothingOfAnotherRun: what was not simulated is not told.
func TestNativeSaysNothingOfAnotherRun(t *testing.T) {
	step := func(k *kit) Native {
		k.play(tens(3)...)
		k.boundary()
		return k.Stats().Native
	}
	k := newKit(t, Options{Native: true})
	if n := k.Stats().Native; n != (Native{}) {
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
	if n := step(k); n != (Native{}) {
		t.Errorf("there are private pools: %+v", n)
	}
	if n := step(newKit(t, Options{})); n != (Native{}) {
		t.Errorf("nobody has asked: %+v", n)
	}
}

// TestNativeSeesEmptiedCaches: the program empties native's cache as well.
func TestNativeSeesEmptiedCaches(t *testing.T) {
	k := newKit(t, Options{Native: true})
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
	for what, spoil := range map[string]func(*native, *stepEnded){
		"events were lost":      func(_ *native, m *stepEnded) { m.lost = 1 },
		"too many were seen":    func(n *native, _ *stepEnded) { n.events = mostSimulated },
		"it is too far behind":  func(n *native, _ *stepEnded) { n.waiting.Store(mostWaiting) },
		"a free is of no block": nil,
	} {
		k := newKit(t, Options{Native: true})
		k.play(tens(3)...)
		k.boundary()
		m := &stepEnded{events: []schedule.Event{schedule.EventOf(schedule.EventMiss, 0x1000, 8, 1),
			schedule.EventOf(schedule.EventFree, 0x1000, 8, 1)}}
		want := uint64(1)
		if spoil != nil {
			spoil(k.native, m)
		} else {
			m.events, want = m.events[1:], 0
		}
		k.simulate(m)
		k.play(tens(3)...)
		k.boundary()
		if n := k.Stats().Native; n.Steps != want || !k.native.over.Load() {
			t.Errorf("%s: %+v, want %d steps", what, n, want)
		}
	}
}

// TestNativeBeside: the simulation goes on beside the program, and ends with the device.
func TestNativeBeside(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: 8 * mem.GiB}), Options{Native: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Local: l, t: t}
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
	tr, err := trace.ReadFile("../tests/traces/qwen2moe_recompute.csv.gz")
	if err != nil {
		b.Fatal(err)
	}
	m := &stepEnded{streams: map[uint16]mem.StreamID{1: 0}}
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
		m.events = append(m.events, schedule.EventOf(kind, uint64(e.ID)<<20, sizes[e.ID], 1))
	}
	for b.Loop() {
		n := newNative(80*mem.GiB, nil)
		if err := n.step(m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(m.events)), "ns/event")
}
