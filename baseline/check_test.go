package baseline

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// TestCheckNotices: every kind of damage to the state is found. Without this a
// Check that returns nil would pass all the other tests.
func TestCheckNotices(t *testing.T) {
	for name, damage := range map[string]func(n *Native){
		"neighbour": func(n *Native) { n.blocks[pick(n, free)].next = none },
		"size":      func(n *Native) { n.blocks[pick(n, live)].size += 512 },
		"state":     func(n *Native) { n.blocks[pick(n, free)].state = live },
		"free set":  func(n *Native) { n.removeFree(pick(n, free)) },
		"order of a set": func(n *Native) {
			l := n.pools[largePool].free[0].leaves[0]
			l.e[0],
				l.e[1] = l.e[1], l.e[0]
		},
		"allocated":        func(n *Native) { n.stats.Allocated += 512 },
		"active":           func(n *Native) { n.stats.Active -= 512 },
		"requested":        func(n *Native) { n.stats.Requested++ },
		"reserved":         func(n *Native) { n.stats.Reserved -= largeBuffer },
		"split bytes":      func(n *Native) { n.stats.InactiveSplitBytes++ },
		"peak":             func(n *Native) { n.stats.PeakReserved = 0 },
		"segments":         func(n *Native) { n.stats.Segments++ },
		"segments overlap": func(n *Native) { overlap(n) },
		"waits":            func(n *Native) { n.blocks[pick(n, waiting)].waits++ },
		"waiting count":    func(n *Native) { n.pending.count-- },
	} {
		n := mixed(t)
		damage(n)
		if n.Check() == nil {
			t.Errorf("%s: the damage was not noticed", name)
		}
	}
	e := NewExpandable(Options{})
	if _, err := e.Malloc(5*mem.MiB, 0); err != nil {
		t.Fatal(err)
	}
	for i := range e.blocks {
		if e.blocks[i].state == unmapped {
			e.removeHole(int32(i))
		}
	}
	if e.Check() == nil {
		t.Error("an unmapped block without a set was not noticed")
	}
}

// mixed has blocks in every state.
func mixed(t *testing.T) *Native {
	t.Helper()
	n := NewNative(Options{Capacity: 4 * mem.GiB})
	for seed := uint64(0); ; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		var blocks []Block
		for range 200 {
			if r.IntN(5) < 3 {
				b, err := n.Malloc(mem.Bytes(r.IntN(60<<20)+1), 0)
				if err != nil {
					t.Fatal(err)
				}
				blocks = append(blocks, b)
			} else if len(blocks) > 0 {
				i := r.IntN(len(blocks))
				if r.IntN(4) == 0 {
					_ = n.RecordStream(blocks[i], 1)
				}
				if err := n.Free(blocks[i]); err != nil {
					t.Fatal(err)
				}
				blocks = append(blocks[:i], blocks[i+1:]...)
			}
		}
		if err := n.Check(); err != nil {
			t.Fatal(err)
		}
		if pick(n, live) != none && pick(n, waiting) != none &&
			n.pools[largePool].free[0].count > 1 {
			return n
		}
		n = NewNative(n.opt)
	}
}

// overlap moves the segment of one block onto that of another.
func overlap(n *Native) {
	last := none
	for i := range n.blocks {
		if b := &n.blocks[i]; b.state == live && b.pool == largePool && b.prev == none &&
			b.next == none {
			if last != none {
				b.addr = n.blocks[last].addr
			}
			last = int32(i)
		}
	}
}

// pick returns a block in that state, preferably one with both neighbours.
func pick(n *Native, s state) int32 {
	found := none
	for i := range n.blocks {
		if b := &n.blocks[i]; b.state == s {
			if found = int32(i); b.prev != none && b.next != none {
				break
			}
		}
	}
	return found
}
