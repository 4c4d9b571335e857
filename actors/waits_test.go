package actors

import (
	"errors"
	"testing"
	"time"

	"stalloc/actors/host"
	"stalloc/actors/pool"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// behind is a kit on a clock of its own and on a device that takes longer for a block than
// the program does. The device may stand still.
type behind struct {
	*kit
	now, busy time.Duration // busy: until when the device has work
	idle      time.Duration // of the device, since it had some
	queued    []work
	still     bool
	slept     time.Duration
	asleep    func() // called once, in a wait
	breaks    bool   // its pool does, on purpose
}

type work struct {
	end time.Duration
	do  func()
}

const (
	hostTakes   = time.Millisecond * 4 / 5
	deviceTakes = time.Millisecond
)

func newBehind(t *testing.T, off without.Set, h busy) *behind {
	b := &behind{}
	gpu := sim.New(sim.Config{Capacity: 8 * mem.GiB, Manual: true})
	h.Model = host.NewModel()
	d, err := Open(gpu, h, Options{Inline: true, Without: off,
		Clock: Clock{Now: func() time.Duration { return b.now }, Sleep: b.sleep}})
	if err != nil {
		t.Fatal(err)
	}
	b.kit = &kit{NewLocal(d, h.Model), t, gpu}
	t.Cleanup(func() {
		for id := range mem.StreamID(other + 2) {
			gpu.Finish(id)
		}
		if err := errors.Join(b.Check(), b.Close()); err != nil && !b.breaks {
			t.Error(err)
		}
	})
	return b
}

// busy is a host whose threads have better things to do than to wait.
type busy struct {
	*host.Model
	cannotWait bool
	pools      int
}

func (h busy) MayWait() bool { return !h.cannotWait }
func (h busy) Captures() int { return h.pools }

func (b *behind) sleep(d time.Duration) {
	if do := b.asleep; do != nil {
		b.asleep = nil
		do()
	}
	b.slept += d
	b.pass(d)
}

// pass lets time pass.
func (b *behind) pass(d time.Duration) {
	b.now += d
	for !b.still && len(b.queued) > 0 && b.queued[0].end <= b.now {
		b.queued[0].do()
		b.queued = b.queued[1:]
	}
	if !b.still && b.busy <= b.now { // fences besides
		b.gpu.Finish(0)
		b.gpu.Finish(side)
	}
}

// lend asks for a block, has another stream use it, and frees it.
func (b *behind) lend(size mem.Bytes) {
	b.t.Helper()
	b.release(b.borrowed(size))
	main, side := b.gpu.Place(0), b.gpu.Place(other)
	if b.busy < b.now {
		b.idle += b.now - b.busy
		b.busy = b.now
	}
	b.busy += deviceTakes
	b.queued = append(b.queued, work{b.busy, func() {
		b.gpu.FinishTo(0, main)
		b.gpu.FinishTo(other, side)
	}})
	b.pass(hostTakes)
}

// endStep waits for the device, as training programs do.
func (b *behind) endStep() {
	b.t.Helper()
	b.pass(max(b.busy-b.now-deviceTakes, 0))
	b.boundary()
}

func (b *behind) pool() pool.Stats {
	b.t.Helper()
	return b.Stats().Stats
}

// TestWaitsSaveMemory lends block after block to another stream. Once it is known how far behind
// the device is, what was lent before serves again, and the device is idle no longer than without.
func TestWaitsSaveMemory(t *testing.T) {
	var held [2]mem.Bytes
	var took, idle [2]time.Duration
	for i, off := range []without.Set{without.Wait, 0} {
		b := newBehind(t, off, busy{})
		for range 6 {
			for range 200 {
				b.lend(8 * mem.MiB)
			}
			b.endStep()
		}
		held[i], took[i], idle[i] = b.pool().PeakReserved, b.now, b.idle
		if (b.slept > 0) != (off == 0) {
			t.Errorf("%v were waited", b.slept)
		}
	}
	if held[0] < 40*8*mem.MiB || held[1] > held[0]/4 {
		t.Errorf("held without waits %v, with %v", held[0], held[1])
	}
	if idle[1] > idle[0] || took[1] > took[0]+deviceTakes {
		t.Errorf("without waits it took %v, %v of them idle; with %v and %v", took[0], idle[0],
			took[1], idle[1])
	}
}

// TestWaitsForEachOther: two ranks each wait for a block that depends on what the other sends after
// its own wait. One of them ends at its bound, and so both.
func TestWaitsForEachOther(t *testing.T) {
	var ranks [2]*behind
	for i := range ranks {
		ranks[i] = newBehind(t, 0, busy{})
		for range 200 {
			ranks[i].lend(mem.MiB)
		}
		ranks[i].endStep()
		for range 40 { // queued, and not done
			ranks[i].lend(mem.MiB)
		}
	}
	const received = other + 1
	sent := func(to *behind) {
		to.gpu.Finish(received)
		to.still = false
	}
	step := func(from, to *behind) {
		at := from.malloc(64 * mem.MiB)
		if err := from.Record(at, received); err != nil {
			t.Fatal(err)
		}
		if err := from.gpu.Use(received, at, 64*mem.MiB); err != nil {
			t.Fatal(err)
		}
		from.release(at)
		from.still = true // what is queued depends on it, too
		from.release(from.malloc(32 * mem.MiB))
		sent(to)
	}
	ranks[0].asleep = func() { step(ranks[1], ranks[0]) }
	step(ranks[0], ranks[1])
	first, second := ranks[0].pool().Waits, ranks[1].pool().Waits
	if first.Waits+second.Waits < 2 || second.Wasted == 0 {
		t.Errorf("waits %+v and %+v", first, second)
	}
	for _, r := range ranks {
		r.boundary()
		if p := r.pool().Pending; p >= 64*mem.MiB {
			t.Errorf("%v still wait", p)
		}
	}
}

// TestEndsWhileItWaits: a request that waits is answered when its device is closed, its memory sent
// to sleep or its pool broken meanwhile.
func TestEndsWhileItWaits(t *testing.T) {
	for want, end := range map[error]func(*behind) error{
		ErrRetired: func(b *behind) error { return b.Retire() },
		ErrAsleep:  func(b *behind) error { return b.Pause(nil, false) },
		ErrBroken: func(b *behind) error {
			_ = b.onPool(func(*pool.Pool) error { panic("a bug") },
				nil)
			return nil
		},
	} {
		b := newBehind(t, 0, busy{})
		b.breaks = want == ErrBroken
		for range 3 {
			for range 100 {
				b.lend(8 * mem.MiB)
			}
			b.endStep()
		}
		ended := false
		b.asleep = func() {
			ended = true
			if err := end(b); err != nil {
				t.Error(err)
			}
		}
		for range 1000 {
			at, err := b.Malloc(0, 8*mem.MiB)
			if err != nil {
				if !ended || !errors.Is(err, want) {
					t.Errorf("ended %v: %v, want %v", ended, err, want)
				}
				break
			}
			if err := b.Record(at, other); err != nil {
				t.Fatal(err)
			}
			b.release(at)
			b.pass(hostTakes)
		}
		if !ended {
			t.Errorf("no request has waited for %v", want)
		}
	}
}
