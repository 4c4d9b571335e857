package actors

import (
	"errors"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// TestLostStep gives an arena up within a step and serves it again in the next.
func TestLostStep(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(8)...)
	live := k.malloc(tens(8)[0]) // a slot that lives on in the pool
	if k.arenaOf(live) == nil {
		t.Fatal("the request missed")
	}
	for range lostAfter { // of no planned size, and of 64 MiB together
		k.play(3*mem.MiB + 512)
	}
	if s := k.Stats(); s.Arenas != 0 || k.lane().serving != nil {
		t.Fatalf("%v are in arenas, the lane serves %v", s.Arenas, k.lane().serving)
	}
	if at, size, err := k.Find(live); err != nil || at != live || size < tens(8)[0] {
		t.Errorf("the pool knows the slot as %#x + %v: %v", uint64(at), size, err)
	}
	k.release(live)
	k.empty()
	k.gpu.Finish(0)
	k.boundary()
	before := k.Stats().Hits
	k.play(tens(8)...)
	if hits := k.Stats().Hits - before; hits != 8 {
		t.Errorf("%d of 8 requests hit after the lost step", hits)
	}
}

// TestPinnedSlotsThroughDissolve frees slots that another stream uses before, while
// and after their arena goes to the pool. Each waits for that stream, and is free
// once it has passed.
func TestPinnedSlotsThroughDissolve(t *testing.T) {
	const other = 7
	for _, freed := range []string{"before", "within", "after"} {
		t.Run(freed, func(t *testing.T) {
			k := newKit(t, Options{})
			k.learn(tens(4)...)
			at := k.malloc(tens(4)[0])
			if err := k.gpu.Use(other, at, tens(4)[0]); err != nil {
				t.Fatal(err)
			}
			if err := k.Use(at, other); err != nil {
				t.Fatal(err)
			}
			switch freed {
			case "before":
				k.release(at)
				k.loses()
			case "within": // between the tape's answer and the fence
				a := k.arenaOf(at)
				a.lane.port.Lock()
				f := a.tape.Free(at)
				a.lane.port.Unlock()
				k.host.count(-mem.Round(f.Asked))
				if f.Slot == stream.None || !f.Pinned {
					t.Fatalf("freed as %+v", f)
				}
				k.loses()
				k.FreePinned(at, f.Asked)
			case "after":
				k.loses()
				k.release(at)
			}
			for range 50 {
				again := k.malloc(tens(4)[0])
				if again == at {
					t.Fatal("the bytes were handed out while another stream used them")
				}
				k.release(again)
			}
			k.gpu.Finish(other)
			k.boundary()
			k.empty()
			if pending := k.host.pending.Load(); pending != 0 {
				t.Errorf("the host counts %d pending bytes", pending)
			}
		})
	}
}

// TestPinnedSlotFreedTwice frees a slot twice while another stream still uses it, in its
// arena and after the arena has gone to the pool. The second free is of nothing, and the
// bytes stay where they are until that stream is through.
func TestPinnedSlotFreedTwice(t *testing.T) {
	const other = 7
	for _, dissolved := range []bool{false, true} {
		t.Run(fmt.Sprintf("dissolved %t", dissolved), func(t *testing.T) {
			k := newKit(t, Options{})
			k.learn(tens(4)...)
			at := k.malloc(tens(4)[0])
			if start, size, err := k.Find(at + 1000); err != nil || start != at || size != tens(4)[0] {
				t.Fatalf("found %v bytes at %x, %v", size, start, err)
			}
			if err := errors.Join(k.gpu.Use(other, at, tens(4)[0]), k.Use(at, other)); err != nil {
				t.Fatal(err)
			}
			k.release(at)
			if dissolved {
				k.loses()
			}
			if err := k.Release(at); !errors.Is(err, ErrUnknown) {
				t.Errorf("freed twice: %v", err)
			}
			if _, _, err := k.Find(at + 1000); err == nil {
				t.Error("a freed block was found")
			}
			for range 50 {
				again := k.malloc(tens(4)[0])
				if again == at {
					t.Fatal("the bytes were handed out while another stream used them")
				}
				k.release(again)
			}
			k.gpu.Finish(other)
			k.boundary()
			k.empty()
			if pending := k.host.pending.Load(); pending != 0 {
				t.Errorf("the host counts %d pending bytes", pending)
			}
		})
	}
}

// TestPinnedTwice has two streams use a slot: it waits for both, and is one slot.
func TestPinnedTwice(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(4)...)
	at := k.malloc(tens(4)[0])
	for _, other := range []mem.StreamID{7, 8} {
		if err := k.Use(at, other); err != nil {
			t.Fatal(err)
		}
	}
	k.release(at)
	k.boundary()
	k.gpu.Finish(8)
	k.boundary()
	if k.lane().arena.tape.State.LiveN != 1 {
		t.Error("the slot did not wait for the first stream")
	}
	k.gpu.Finish(7)
	k.boundary()
	if k.lane().arena.tape.State.LiveN != 0 {
		t.Error("the slot is still live")
	}
	k.empty()
}

// TestNewPlanOverLiveBlocks replans while a slot of the old plan lives.
func TestNewPlanOverLiveBlocks(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(6)...)
	live := k.malloc(tens(6)[0])
	a := k.arenaOf(live)
	if a == nil {
		t.Fatal("the request missed")
	}
	generation := k.Stats().Generation
	var larger []mem.Bytes
	for i := range 12 {
		larger = append(larger, 11*mem.MiB+mem.Bytes(i)*mem.KiB)
	}
	k.learn(larger...)
	if k.Stats().Generation == generation {
		t.Fatal("there is no new plan")
	}
	// Whoever owns it now, nobody else was given its bytes.
	for _, size := range larger {
		at := k.malloc(size)
		if at < live+mem.Addr(tens(6)[0]) && live < at+mem.Addr(size) {
			t.Errorf("%#x + %v overlaps the live block at %#x", uint64(at), size, uint64(live))
		}
		defer k.release(at)
	}
	k.release(live)
}

// TestArenaGrows replans a larger step: the arena keeps its address.
func TestArenaGrows(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(4)...)
	base, size := k.lane().arena.base, k.lane().arena.bytes()
	k.learn(tens(12)...)
	a := k.lane().arena
	if a.bytes() <= size {
		t.Fatalf("the arena has %v, and had %v", a.bytes(), size)
	}
	if a.base == base && len(a.parts) < 2 {
		t.Errorf("the arena grew in place and has %d parts", len(a.parts))
	}
	if s := k.Stats(); s.Arenas != a.bytes() {
		t.Errorf("%v are in arenas, the only one has %v", s.Arenas, a.bytes())
	}
}

// TestManyArenas moves a lane from arena to arena: none that is empty is kept.
func TestManyArenas(t *testing.T) {
	k := newKit(t, Options{})
	for i := range 5 {
		k.learn(tens(4 + 3*i)...)
		wall := k.malloc(200 * mem.MiB) // in the way of the next arena
		defer k.release(wall)
	}
	k.boundary()
	if n := len(*k.arenas.Load()); n != 1 || len(k.lane().former) != 0 {
		t.Errorf("there are %d arenas, %d of them former ones", n, len(k.lane().former))
	}
	if s := k.Stats(); s.Arenas != k.lane().arena.bytes() {
		t.Errorf("%v are in arenas, the last one has %v", s.Arenas, k.lane().arena.bytes())
	}
}

// busy stands before the pool and refuses arenas for a while, as the pool does while
// work may still use their pages.
type busy struct {
	d    *Device
	pool *actor.PID
	left int
}

func (b *busy) Receive(ctx actor.Context) {
	if m, ok := ctx.Message().(*allocRequest); ok && m.whole && b.left > 0 {
		b.left--
		m.reply(&RefusedError{Reason: engine.RefusedBusy})
		return
	}
	if q, ok := ctx.Message().(question); ok {
		b.d.root.Send(b.pool, q)
	}
}

// TestBusyArena has the pool refuse the arena of a plan at some boundaries. The
// requests are served meanwhile, and the plan is when its arena can be had.
func TestBusyArena(t *testing.T) {
	const refusals = 2
	k := newKit(t, Options{})
	b := &busy{k.Device, k.pool, refusals}
	k.Device.pool = k.root.Spawn(onCaller(func() actor.Actor { return b }))
	began := -1
	for step := range 12 {
		k.play(tens(8)...)
		refused := refusals - b.left
		k.boundary()
		switch lane := k.lane(); {
		case refused < refusals && lane.serving != nil:
			t.Fatalf("step %d: an arena is served after %d refusals", step, refused)
		case began < 0 && lane.serving != nil:
			began = step
		}
	}
	if hits := k.Stats().Hits; began < 0 || hits != uint64(8*(11-began)) {
		t.Errorf("served from the boundary after step %d, %d hits, %d refusals left", began, hits, b.left)
	}
}
