package pool

import (
	"fmt"
	"testing"
	"time"

	"stalloc/actors/host"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// quick is a host that serves from the index while a message is under way, as C does.
type quick struct {
	*host.Model
	index *index.Model
}

func (h *quick) Index() index.Index { return h.index }

// serve hands out a block if there is a gap for it in an arena.
func (h *quick) serve(arena uint32, size mem.Bytes) bool {
	h.Lock()
	defer h.Unlock()
	n := index.Unit(size / mem.Grain)
	g := h.index.Fit(arena, n)
	if g.Size() > 0 {
		h.index.Put(index.Block{At: g.Lo, Size: n, Arena: arena, State: index.Fast})
	}
	return g.Size() > 0
}

// TestOpeningTakesFromAllRegions: while a region waits for what another one gives, other threads
// take some of it. Then a third one gives the rest, which has it.
func TestOpeningTakesFromAllRegions(t *testing.T) {
	const unit, out = 32 * mem.MiB, sim.FirstMade
	const arena = 2 // the default stream's, for large blocks
	h := &quick{host.NewModel(), index.NewModel()}
	k := newKitOn(t, h)
	k.SetLimit(64 * unit)
	now, copied, taken := time.Duration(0), mem.Tick(0), 4
	k.Clock.Now = func() time.Duration { return now }
	k.Clock.Sleep = func(d time.Duration) {
		now += d
		k.gpu.Finish(0)
		k.gpu.Finish(out + 1)
		copied = min(copied+1, k.gpu.Place(out))
		k.gpu.FinishTo(out, copied)
		if taken < 4 && h.serve(arena, unit) {
			taken++
		}
	}
	locked := func(do func() error) {
		t.Helper()
		h.Lock()
		defer h.Unlock()
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	k.release(k.malloc(0, 0, unit)) // its arena is the first
	var regions [4]uint64
	for n := range regions {
		var err error
		if regions[n], err = region.Number(fmt.Sprintf("test: part %d", n)); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			k.malloc(0, regions[n], unit)
		}
	}
	end := func(n int, all bool) {
		t.Helper()
		locked(func() error {
			return k.EndAwake(regions[n], 0, Closing{Changed: true, All: all})
		})
	}
	begin := func(n int) {
		t.Helper()
		locked(func() error { return k.BeginAwake(regions[n], 0) })
	}
	end(0, true)
	end(1, true)
	k.malloc(0, 0, 32*unit)
	k.release(k.malloc(0, 0, 16*unit))
	begin(0) // half of what is idle rests
	k.malloc(0, 0, 8*unit)
	end(2, false)
	end(3, false)
	taken = 0
	if begin(1); taken == 0 {
		t.Error("no other thread took anything")
	}
}
