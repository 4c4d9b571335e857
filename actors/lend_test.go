package actors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/live/perfetto"
)

// phase has a stream hold n blocks of 64 MiB for as many pieces of work on it, and free them.
func (b *behind) phase(id mem.StreamID, n int) {
	b.t.Helper()
	var held []mem.Addr
	for range n {
		at, err := b.Malloc(id, 64*mem.MiB)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := b.gpu.Use(id, at, 64*mem.MiB); err != nil {
			b.t.Fatal(err)
		}
		held = append(held, at)
		b.work(id)
	}
	for _, at := range held {
		b.release(at)
	}
}

// work queues some on a stream.
func (b *behind) work(id mem.StreamID) {
	to := b.gpu.Place(id)
	if b.busy < b.now {
		b.idle += b.now - b.busy
		b.busy = b.now
	}
	b.busy += deviceTakes
	b.queued = append(b.queued, work{b.busy, func() { b.gpu.FinishTo(id, to) }})
	b.pass(hostTakes)
}

const side = mem.StreamID(5)

// TestStreamsLend has two streams need their memory by turns. If they last, the memory of one
// serves the other, the device is hardly idle for it, and once the memory has places in both nobody
// calls the driver to map it.
func TestStreamsLend(t *testing.T) {
	var held [3]mem.Bytes
	var idle [3]time.Duration
	for i, c := range []struct {
		off   without.Set
		lasts bool
	}{{without.Wait | without.Lend, true}, {0, false}, {0, true}} {
		b := newBehind(t, c.off, busy{})
		b.PersistentStream(0)
		if c.lasts {
			b.PersistentStream(side)
		}
		b.pass(time.Second) // a set-up: the first step's requests wait no longer than that
		var maps uint64
		for n := range 12 {
			if n == 8 {
				maps = b.pool().Engine.Maps
			}
			for range 3 {
				b.phase(0, 40)
				b.phase(side, 40)
			}
			b.endStep()
		}
		s := b.pool()
		if held[i], idle[i] = s.Reserved, b.idle; s.Engine.Maps != maps {
			t.Errorf("case %d: %d maps in the last steps", i, s.Engine.Maps-maps)
		}
		if off := c.off != 0; off != (s.Engine.Lent == 0) {
			t.Errorf("case %d: %d handles were lent", i, s.Engine.Lent)
		}
	}
	const one = 40 * 64 * mem.MiB
	if held[0] < 2*one || held[1] < 2*one || held[2] > one+one/16 {
		t.Errorf("held without waits %v, with a stream that may be gone %v, else %v; one needs %v",
			held[0], held[1], held[2], one)
	}
	if idle[2] > idle[0]+12*6*2*deviceTakes {
		t.Errorf("the device was idle for %v, without for %v", idle[2], idle[0])
	}
}

// TestNothingElseIsBehind: a stream is asked to lend by a request that was refused before, since a
// block waits for a third stream, and whose own stream has done all its work. No time counts as
// waited that was not.
func TestNothingElseIsBehind(t *testing.T) {
	b := newBehind(t, 0, busy{})
	b.PersistentStream(side)
	b.phase(0, 1)
	b.phase(side, 40)
	b.endStep()
	b.phase(side, 40)
	b.endStep()
	b.still = true
	at := b.borrowed(8 * mem.MiB)
	if err := b.gpu.Use(side, at, 8*mem.MiB); err != nil {
		t.Fatal(err)
	}
	b.release(at)
	b.release(b.malloc(mem.MiB)) // with a mark
	b.gpu.Finish(0)
	b.release(b.malloc(2 * mem.GiB))
	if s := b.pool(); s.Engine.Lent == 0 || s.Waits.Time == 0 ||
		time.Duration(s.Waits.Time) > b.slept {
		t.Errorf("%d handles were lent, %v of %v waited", s.Engine.Lent, s.Waits.Time, b.slept)
	}
}

// TestTwoLend: a request that two streams lend memory for waits for both, though the work of the
// last one asked is done.
func TestTwoLend(t *testing.T) {
	const third = side + 1
	b := newBehind(t, 0, busy{})
	for _, id := range []mem.StreamID{0, side, third} {
		b.PersistentStream(id)
	}
	b.phase(side, 1)
	at, err := b.Malloc(side, 16*64*mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	b.phase(third, 16)
	b.pass(time.Second) // waits may take as long as this step
	b.endStep()
	for range 16 {
		b.work(side)
	}
	b.release(at)
	before := b.pool().Reserved
	b.asleep = func() { b.gpu.Finish(third) } // it has nothing else to do
	b.release(b.malloc(28 * 64 * mem.MiB))
	if s := b.pool(); s.Reserved > before || s.Waits.Time == 0 {
		t.Errorf("%v are held, %v before; %v waited", s.Reserved, before, s.Waits.Time)
	}
}

// TestStreamsOfOneRequest has a program pack what it has on streams that are each used once, as
// PyTorch hands out streams of its pool, and wait for them. What one has left serves the next,
// however short its steps are.
func TestStreamsOfOneRequest(t *testing.T) {
	const rounds, size, first, pool = 24, 128 * mem.MiB, mem.StreamID(16), 32
	b := newBehind(t, 0, busy{})
	var held [rounds]mem.Bytes
	id := mem.StreamID(0)
	for n := range held {
		var packs []mem.Addr
		for range 2 {
			s := first + id%pool
			id++
			b.PersistentStream(s)
			at, err := b.Malloc(s, size)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.gpu.Use(s, at, size); err != nil {
				t.Fatal(err)
			}
			b.pass(100 * time.Microsecond)
			b.gpu.FinishTo(s, b.gpu.Place(s)+2) // and fences that have no work before them
			packs = append(packs, at)
		}
		for _, at := range packs {
			b.release(at)
		}
		held[n] = b.pool().Reserved
	}
	if held[rounds-1] > held[1]+64*mem.MiB {
		t.Errorf("%v are held after the second round, %v after the last", held[1], held[rounds-1])
	}
	if s := b.pool(); s.Waits.Time > 0 || b.gpu.Stats().Sync > 0 {
		t.Errorf("%v were waited, and %d times for the device", s.Waits.Time, b.gpu.Stats().Sync)
	}
}

// TestWaitsAreTraced: how long a request waited for other streams is in the trace.
func TestWaitsAreTraced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	trace, err := perfetto.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	b := newBehind(t, 0, busy{})
	b.opts.Trace = trace
	b.PersistentStream(0)
	b.PersistentStream(side)
	b.pass(time.Second)
	for range 3 {
		b.phase(0, 40)
		b.phase(side, 40)
		b.endStep()
	}
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := `"a request waits for streams"`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}
