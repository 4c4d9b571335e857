package report

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// TestHoldingAgainstPages: extents say of every byte and event what a table of pages says.
func TestHoldingAgainstPages(t *testing.T) {
	const pages, events = 40, 300
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var h holding
		var table [events][pages]bool
		var now [pages]bool
		for event := range events {
			for range random.IntN(3) {
				from := random.IntN(pages)
				size := 1 + random.IntN(min(5, pages-from))
				held := random.IntN(2) == 0
				h.set(mem.Addr(from+1)*4096, mem.Bytes(size)*4096, held, event)
				for p := from; p < from+size; p++ {
					now[p] = held
				}
			}
			table[event] = now
		}
		var got [events][pages]bool
		for _, e := range h.close(events) {
			for event := e.begin; event < e.end; event++ {
				for p := e.from/4096 - 1; p < e.to/4096-1; p++ {
					if got[event][p] {
						t.Fatalf("seed %d: page %d is in two extents at event %d", seed, p, event)
					}
					got[event][p] = true
				}
			}
		}
		if got != table {
			t.Fatalf("seed %d: the extents differ from the pages", seed)
		}
	}
}

func TestSpaceLeavesGapsOut(t *testing.T) {
	held := []extent{{1000 << 9, 1010 << 9, 0, 5}, {2000 << 9, 2004 << 9, 3, 9},
		{9000 << 9, 9001 << 9, 20, 30}, {1010 << 9, 1011 << 9, 4, 5}}
	s := newSpace(held, []extent{{2004 << 9, 2005 << 9, 1, 2}, {7000 << 9, 7001 << 9, 11, 12}}, 0,
		10)
	if s.high != 16*mem.Grain {
		t.Errorf("height %v", s.high)
	}
	for at, want := range map[mem.Addr]int{1000 << 9: 0, 1010 << 9: 10, 2003 << 9: 14,
		2004 << 9: 15, 2005 << 9: nowhere, 7000 << 9: nowhere, 9000 << 9: nowhere, 0: nowhere,
		500: nowhere} {
		if got := s.height(at); got != want {
			t.Errorf("%#x lies at %d, want %d", uint64(at), got, want)
		}
	}
}
