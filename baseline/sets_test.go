package baseline

import (
	"math/rand/v2"
	"sort"
	"testing"

	"stalloc/internal/mem"
)

// TestSetAgainstSlice compares the set with a sorted slice while it grows over
// several leaves and shrinks to nothing again.
func TestSetAgainstSlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, limit := range []int{3, leafCap, 20 * leafCap} {
		var s set
		var want []entry
		for op := range 6000 {
			growing := op/(2*limit)%2 == 0
			if insert := r.IntN(4) > 0 == growing; insert && len(want) < limit {
				e := entry{mem.Bytes(r.IntN(50)), mem.Offset(r.IntN(1 << 30)), int32(op)}
				at := sort.Search(len(want), func(i int) bool { return !want[i].less(e) })
				if at < len(want) && !e.less(want[at]) {
					continue
				}
				want = append(want[:at], append([]entry{e}, want[at:]...)...)
				s.insert(e)
			} else if len(want) > 0 {
				at := r.IntN(len(want))
				if !s.remove(want[at].size, want[at].addr) ||
					s.remove(want[at].size, want[at].addr) {
					t.Fatalf("seed %d: entry %+v was not removed exactly once", seed, want[at])
				}
				want = append(want[:at], want[at+1:]...)
			}
			compareSet(t, seed, &s, want, entry{size: mem.Bytes(r.IntN(52)),
				addr: mem.Offset(r.IntN(1 << 30))})
		}
	}
}

func compareSet(t *testing.T, seed uint64, s *set, want []entry, probe entry) {
	t.Helper()
	if s.count != len(want) || !s.sorted() {
		t.Fatalf("seed %d: %d entries, want %d, sorted: %v", seed, s.count, len(want), s.sorted())
	}
	at := sort.Search(len(want), func(i int) bool { return !want[i].less(probe) })
	cur, ok := s.ceil(probe)
	if ok != (at < len(want)) || ok && s.at(cur) != want[at] {
		t.Fatalf("seed %d: ceil of %+v is wrong", seed, probe)
	}
	i := 0
	for cur, ok := s.first(); ok; cur, ok = s.next(cur) {
		if s.at(cur) != want[i] {
			t.Fatalf("seed %d: entry %d upwards is wrong", seed, i)
		}
		i++
	}
	for cur, ok := s.last(); ok; cur, ok = s.prev(cur) {
		i--
		if s.at(cur) != want[i] {
			t.Fatalf("seed %d: entry %d downwards is wrong", seed, i)
		}
	}
	if i != 0 || len(s.appendBlocks(nil)) != len(want) {
		t.Fatalf("seed %d: a walk missed entries", seed)
	}
}
