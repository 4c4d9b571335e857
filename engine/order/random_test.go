package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// naive is a program and what its streams do: who may have which memory is found out by looking at
// every block that ever was.
type naive struct {
	*world
	random *rand.Rand
	last   uint64
	blocks []*block
	waits  []engine.Event // requests that come again
}

// block is one of the program's.
type block struct {
	op     engine.Op
	stream mem.StreamID
	users  []mem.StreamID
	live   bool
	until  map[mem.StreamID]int // once it is freed: the work that may touch it
	bytes  map[piece][][2]mem.Bytes
}

const streams = 4

func newNaive(seed uint64) *naive {
	random := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{NoWait: random.IntN(8) == 0, NoLend: random.IntN(8) == 0}
	return &naive{world: newWorld(mem.Bytes(64+random.IntN(192))*mem.MiB, cfg), random: random}
}

// pieces returns what of which pages of handles lies in a block.
func (n *naive) pieces(op engine.Op) (map[piece][][2]mem.Bytes, error) {
	all := map[piece][][2]mem.Bytes{}
	for at := op.Addr; at < op.Addr+mem.Addr(op.Size); {
		page := at &^ mem.Addr(mem.HandleSize-1)
		end := min(page+mem.Addr(mem.HandleSize), op.Addr+mem.Addr(op.Size))
		x, there := n.mapped[page]
		if !there {
			return nil, fmt.Errorf("%#x of a block is not mapped", uint64(at))
		}
		all[x] = append(all[x], [2]mem.Bytes{mem.Bytes(at - page), mem.Bytes(end - page)})
		at = end
	}
	return all, nil
}

// free reports whether a block of a stream may have what another one has had.
func (n *naive) free(b *block, stream mem.StreamID) bool {
	if b.live {
		return false
	}
	for id, until := range b.until {
		if id == stream {
			continue // behind that work itself
		}
		if n.stream(id).passed < until {
			return false
		}
	}
	return true
}

// grant holds a block to everything that others may still touch.
func (n *naive) grant(ev engine.Event) error {
	b := &block{op: n.answer, stream: ev.Stream, live: true, until: map[mem.StreamID]int{}}
	var err error
	if b.bytes, err = n.pieces(b.op); err != nil {
		return err
	}
	for _, x := range n.blocks {
		if n.free(x, ev.Stream) {
			continue
		}
		for p, mine := range b.bytes {
			for _, r := range mine {
				for _, s := range x.bytes[p] {
					if r[0] < s[1] && s[0] < r[1] {
						return fmt.Errorf("request %d has memory that request %d may still use",
							ev.Req, x.op.Req)
					}
				}
			}
		}
	}
	n.blocks = append(slices.DeleteFunc(n.blocks,
		func(x *block) bool { return n.free(x, streams) }), b)
	n.stream(ev.Stream).recorded++ // a kernel
	return nil
}

func (n *naive) malloc(ev engine.Event) error {
	if err := n.step(ev); err != nil {
		return err
	}
	switch n.answer.Kind {
	case engine.OpGrant:
		return n.grant(ev)
	case engine.OpWait:
		n.waits = append(n.waits, ev)
		return nil
	case engine.OpRefuse:
		return nil
	}
	return fmt.Errorf("request %d is answered by %v", ev.Req, n.answer.Kind)
}

// once lets something happen.
func (n *naive) once() error {
	n.now += engine.Nanos(n.random.IntN(500)) * microsecond
	id := mem.StreamID(n.random.IntN(streams))
	ev := engine.Event{Stream: id,
		Around: engine.Around{Capturing: n.random.IntN(20) == 0}}
	switch k := n.random.IntN(40); {
	case k < 14:
		n.last++
		ev.Kind, ev.Req, ev.CanWait = engine.EvAlloc, n.last, n.random.IntN(4) > 0
		ev.Asked = mem.Bytes(1+n.random.IntN(1<<n.random.IntN(16))) * mem.KiB
		ev.Persistent = id < streams-1
		if n.random.IntN(10) == 0 {
			ev.Pool = 7
		}
		return n.malloc(ev)
	case k < 24:
		return n.release(ev)
	case k < 28:
		return n.use(id, ev)
	case k < 33:
		s := n.stream(id)
		s.passed += n.random.IntN(s.recorded - s.passed + 1)
	case k < 35:
		n.refuses[id] = n.random.IntN(3) == 0
	case k < 36:
		n.noSync = n.random.IntN(4) == 0
	case k < 37:
		if ev.Kind = engine.EvTrim; n.random.IntN(2) == 0 && !ev.Capturing {
			ev.Kind, ev.Asked = engine.EvLend, mem.Bytes(n.random.IntN(64))*mem.MiB
			ev.Unit = mem.Bytes(n.random.IntN(8)) * 2 * mem.MiB
			if len(n.resting) > 0 && n.random.IntN(2) == 0 {
				ev.Kind, ev.Handle = engine.EvRise, n.resting[0]
				n.resting = n.resting[1:]
			}
		}
		return n.step(ev)
	case k < 38:
		ev.Kind = engine.EvBoundary
		return n.step(ev)
	case k < 39:
		ev.Kind = engine.EvPoll
		return n.step(ev)
	case len(n.waits) > 0:
		ev, n.waits = n.waits[0], n.waits[1:]
		return n.malloc(ev)
	}
	return nil
}

func (n *naive) pick() *block {
	if len(n.blocks) == 0 {
		return nil
	}
	if b := n.blocks[n.random.IntN(len(n.blocks))]; b.live {
		return b
	}
	return nil
}

func (n *naive) use(id mem.StreamID, ev engine.Event) error {
	b := n.pick()
	if b == nil || id == b.stream {
		return nil
	}
	b.users = append(b.users, id)
	n.stream(id).recorded++ // a kernel that uses it
	ev.Kind, ev.Addr = engine.EvUseStream, b.op.Addr
	return n.step(ev)
}

func (n *naive) release(ev engine.Event) error {
	b := n.pick()
	if b == nil {
		return nil
	}
	b.live = false
	for _, id := range append(slices.Clone(b.users), b.stream) {
		b.until[id] = n.stream(id).recorded
	}
	ev.Kind, ev.Addr, ev.Deferred = engine.EvFree, b.op.Addr, n.random.IntN(5) == 0
	return n.step(ev)
}

// run plays a random program to its end: when all work is done and all fences are polled, nothing
// waits.
func run(seed uint64, steps int) error {
	n := newNaive(seed)
	for i := range steps {
		if err := n.once(); err != nil {
			return fmt.Errorf("seed %d, step %d: %w", seed, i, err)
		}
	}
	n.passAll()
	n.refuses, n.noSync = map[mem.StreamID]bool{}, false
	n.eng.Step(engine.Event{Kind: engine.EvSynced}, nil)
	if err := n.step(engine.Event{Kind: engine.EvPoll}); err != nil {
		return err
	}
	if err := n.step(engine.Event{Kind: engine.EvPoll}); err != nil {
		return err
	}
	if left := n.eng.Outstanding(); left.All > 0 || n.policy.Stats().Pending > 0 {
		return fmt.Errorf("seed %d: %+v are outstanding, %v pending", seed, left,
			n.policy.Stats().Pending)
	}
	for _, ev := range n.waits {
		for tries := 0; ; tries++ { // other streams may lend for it
			if err := n.step(ev); err != nil {
				return err
			}
			if n.answer.Kind != engine.OpWait {
				break
			}
			if tries == 3 {
				return fmt.Errorf("seed %d: request %d waits for nothing", seed, ev.Req)
			}
			n.passAll()
		}
	}
	return nil
}

// passAll has all work that was given to streams be done.
func (n *naive) passAll() {
	for _, s := range n.streams {
		s.passed = s.recorded
	}
}

// TestRandom plays programs whose every grant is checked against all blocks that may be in use.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		if err := run(seed, 1500); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzOrder(f *testing.F) {
	f.Add(uint64(1), uint16(500))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		if err := run(seed, int(steps)%4000); err != nil {
			t.Fatal(err)
		}
	})
}
