package ctape

import (
	"testing"

	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// TestLockStep: what C answers where it serves from a tape is what Go answers that looks
// every wish up in the range, whatever happens between; and no two live blocks overlap.
func TestLockStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      noise
		move   int
		slack  uint64
		most   mem.Bytes
		served float64 // by C, of the requests, at least
	}{
		{"exact", noise{}, 0, 0, 0, 0.6},
		{"exact, looked at", noise{goes: 20}, 0, 0, 0, 0.6},
		{"planned", noise{goes: 3}, 300, 0, 0, 0.5},
		{"late frees", noise{record: 60, pass: 200, goes: 3}, 20, 0, 0, 0.4},
		{"misses", noise{skip: 10, insert: 10, keep: 10, goes: 3}, 20, 0, 0, 0.4},
		{"jumps", noise{skip: 3, jump: 3, insert: 3, goes: 3}, 0, 0, 0, 0.3},
		{"cut short", noise{jump: 6}, 0, 0, 0, 0.3},
		{"asked often", noise{record: 20, pass: 100, insert: 20}, 20, 5, 0, 0.2},
		{"foreseen", noise{goes: 3}, 20, 0, 150 * mem.KiB, 0.5},
		{"foreseen, with misses", noise{skip: 10, insert: 10, keep: 10, goes: 3, jump: 1}, 20, 0, 150 * mem.KiB, 0.3},
		{"all at once, foreseen", noise{skip: 10, insert: 10, keep: 20, record: 20, pass: 100, goes: 5, jump: 1}, 100, 0, mem.MiB, 0.2},
		{"all at once", noise{skip: 10, insert: 10, keep: 20, record: 20, pass: 100, goes: 5, jump: 1}, 100, 0, 0, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var served, hits [2]int
			foreseen := 0
			for seed := range uint64(12) {
				x := newTwins(seed)
				defer x.device.Close()
				if x.slack = c.slack; c.most > 0 {
					x.most = uint64(c.most / mem.Grain)
				}
				if err := x.life(14, 20<<(seed%5), c.x, c.move); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				served[0] += x.served[0]
				served[1] += x.served[1]
				hits[1] += x.hits
				foreseen += x.foreseen
			}
			share := float64(served[1]) / float64(served[0]+served[1])
			t.Logf("C served %d of %d requests (%.0f %%), %d where wished, %d of them from forecasts", served[1], served[0]+served[1], 100*share, hits[1], foreseen)
			if c.most > 0 && foreseen == 0 {
				t.Error("C served nothing from a forecast")
			}
			if share < c.served {
				t.Errorf("C served only %.0f %% of the requests, want %.0f %%", 100*share, 100*c.served)
			}
		})
	}
}

// TestForecastBesideAPlan: what a forecast has put where a plan's request is wished is in the
// way of that, though the plan had the place to itself a step ago.
func TestForecastBesideAPlan(t *testing.T) {
	x := newTwins(1)
	defer x.device.Close()
	x.most = uint64(150 * mem.KiB / mem.Grain)
	const open, planned = mem.MiB, 2 * mem.MiB
	entry := func(size mem.Bytes, at mem.Addr) wish.Entry {
		return wish.Of(uint64(size/mem.Grain), uint64(at-x.b.Base)/uint64(mem.Grain))
	}
	step := func(sizes ...mem.Bytes) (at []mem.Addr) {
		t.Helper()
		var blocks []block
		for _, size := range sizes {
			b, err := x.alloc(0, size)
			if err != nil {
				t.Fatal(err)
			}
			blocks, at = append(blocks, b), append(at, b.addr)
		}
		for _, b := range blocks {
			if err := x.free(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.boundary(); err != nil {
			t.Fatal(err)
		}
		return at
	}
	at := step(8*mem.MiB, 2*planned)[1]
	if err := x.play(0, wish.Large, []wish.Entry{entry(open, x.b.Base), entry(planned, at), entry(planned, at+mem.Addr(planned))}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		step(open, planned, planned)
	}
	if err := x.play(0, wish.Foreseen, []wish.Entry{entry(open, at), 0, 0}); err != nil {
		t.Fatal(err)
	}
	step(open, planned, planned)
	if x.foreseen == 0 {
		t.Error("the forecast served nothing")
	}
}
