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
		quick  float64 // of those requests and their frees, at least
	}{
		{"regular", noise{regular: true}, 0, 0, 0, 0.6, 0.1},
		{"regular, looked at", noise{regular: true, goes: 2}, 0, 0, 0, 0.6, 0.1},
		{"regular, with strays", noise{regular: true, insert: 1}, 0, 0, 0, 0.6, 0.1},
		{"regular, foreseen", noise{regular: true, insert: 1}, 0, 0, mem.MiB, 0.6, 0.1},
		{"exact", noise{}, 0, 0, 0, 0.6, 0},
		{"exact, looked at", noise{goes: 20}, 0, 0, 0, 0.6, 0},
		{"planned", noise{goes: 3}, 300, 0, 0, 0.5, 0},
		{"late frees", noise{record: 60, pass: 200, goes: 3}, 20, 0, 0, 0.4, 0},
		{"misses", noise{skip: 10, insert: 10, keep: 10, goes: 3}, 20, 0, 0, 0.4, 0},
		{"jumps", noise{skip: 3, jump: 3, insert: 3, goes: 3}, 0, 0, 0, 0.3, 0},
		{"cut short", noise{jump: 6}, 0, 0, 0, 0.3, 0},
		{"asked often", noise{record: 20, pass: 100, insert: 20}, 20, 5, 0, 0.2, 0},
		{"foreseen", noise{goes: 3}, 20, 0, 150 * mem.KiB, 0.5, 0},
		{"foreseen, with misses", noise{skip: 10, insert: 10, keep: 10, goes: 3, jump: 1}, 20, 0, 150 * mem.KiB, 0.3, 0},
		{"all at once, foreseen", noise{skip: 10, insert: 10, keep: 20, record: 20, pass: 100, goes: 5, jump: 1}, 100, 0, mem.MiB, 0.2, 0},
		{"all at once", noise{skip: 10, insert: 10, keep: 20, record: 20, pass: 100, goes: 5, jump: 1}, 100, 0, 0, 0.2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var served, hits [2]int
			foreseen, quick := 0, 0
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
				quick += x.device.Quick()
			}
			share := float64(served[1]) / float64(served[0]+served[1])
			t.Logf("C served %d of %d requests (%.0f %%), %d where wished, %d of them from forecasts; %d requests and frees were quick", served[1], served[0]+served[1], 100*share, hits[1], foreseen, quick)
			if c.most > 0 && foreseen == 0 {
				t.Error("C served nothing from a forecast")
			}
			if least := c.quick * float64(2*served[1]); float64(quick) < least {
				t.Errorf("only %d requests and frees were quick, want %.0f", quick, least)
			}
			if share < c.served {
				t.Errorf("C served only %.0f %% of the requests, want %.0f %%", 100*share, 100*c.served)
			}
		})
	}
}

// TestForecastBesideAPlan: bytes that a forecast has taken are not the plan's any more, which
// had them in every step until then.
func TestForecastBesideAPlan(t *testing.T) {
	x := newTwins(1)
	defer x.device.Close()
	x.most = 1
	const half, whole = 2 * mem.MiB, 4 * mem.MiB
	serve := func(sizes ...mem.Bytes) (got []placed) {
		var live []block
		for _, size := range sizes {
			b, err := x.alloc(1, size)
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, b)
			got = append(got, placed{b.size, b.addr})
		}
		for _, b := range live {
			if err := x.free(b, 1); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	serve(half, half, whole) // what follows is no peak
	if err := x.play(1, wish.Large, x.entriesOf(serve(half, half), 0)[wish.Large]); err != nil {
		t.Fatal(err)
	}
	first := serve(half, half)[0]
	for range 3 {
		if err := x.boundary(); err != nil {
			t.Fatal(err)
		}
		serve(half, half)
	}
	if err := x.boundary(); err != nil {
		t.Fatal(err)
	}
	first.size = whole
	if err := x.play(1, wish.Foreseen, x.entriesOf([]placed{first}, 0)[wish.Large]); err != nil {
		t.Fatal(err)
	}
	if serve(whole, half); x.foreseen != 1 {
		t.Errorf("%d requests were served from the forecast, want 1", x.foreseen)
	}
}
