package actors

import (
	"math/rand/v2"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// TestSurvivors follows the blocks of the first segments through random steps by
// their identifiers, and by survivors, which know only the steps.
func TestSurvivors(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var r plan.Recorder
		var b beginning
		var live []uint64
		born := map[uint64]origin{}
		next := uint64(0)
		for segment := range mostFirst + 3 {
			blocks := int32(len(live)) // in the order of the recorder
			for range rng.IntN(30) {
				if len(live) > 0 && rng.IntN(2) == 0 {
					k := rng.IntN(len(live))
					r.Free(live[k])
					live = append(live[:k], live[k+1:]...)
					continue
				}
				next++
				live = append(live, next)
				r.Alloc(next, mem.Bytes(next)*mem.Grain)
				born[next] = origin{int32(segment), blocks}
				blocks++
			}
			b.note([]*plan.Step{r.Boundary()}, true)
		}
		alive := map[origin]bool{}
		var bytes mem.Bytes
		for _, id := range live {
			if o := born[id]; o.segment < mostFirst {
				alive[o] = true
				bytes += mem.Bytes(id) * mem.Grain
			}
		}
		if len(b.left[0]) != len(alive) || b.bytes() != bytes {
			t.Fatalf("%d survivors of %v, expected %d of %v", len(b.left[0]), b.bytes(), len(alive), bytes)
		}
		for k, steps := range marked(b.segments, b.left) {
			for i, block := range steps[0].Blocks {
				outlives := block.Alloc >= 0 && int(block.Free) == len(steps[0].Ops)
				if want := outlives && !alive[origin{int32(k), int32(i)}]; block.Passes != want {
					t.Fatalf("block %d of segment %d passes: %v", i, k, block.Passes)
				}
				if b.segments[k][0].Blocks[i].Passes {
					t.Fatal("the segment itself was changed")
				}
			}
		}
	}
}
