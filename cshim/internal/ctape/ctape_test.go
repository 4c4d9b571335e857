package ctape

import (
	"errors"
	"slices"
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
		{"swapped", noise{swap: 10}, 20, 0, 0, 0.4, 0},
		{"swapped at every turn", noise{swap: 100, keep: 20, goes: 3}, 200, 0, 0, 0.3, 0},
		{"swapped, foreseen", noise{swap: 30, keep: 20, insert: 10, goes: 3, jump: 1}, 100, 0, 150 * mem.KiB, 0.2, 0},
		{"all at once", noise{swap: 10, skip: 10, insert: 10, keep: 20, record: 20, pass: 100, goes: 5, jump: 1}, 100, 0, 0, 0.2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var served, hits [2]int
			foreseen, quick, swaps := 0, 0, 0
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
				swaps += x.swaps
			}
			share := float64(served[1]) / float64(served[0]+served[1])
			t.Logf("C served %d of %d requests (%.0f %%), %d where wished, %d of them from forecasts, %d swaps; %d requests and frees were quick", served[1], served[0]+served[1], 100*share, hits[1], foreseen, swaps, quick)
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

// entry is a wish for a block at an address.
func (t *twins) entry(size mem.Bytes, at mem.Addr) wish.Entry {
	return wish.Of(uint64(size/mem.Grain), uint64(at-t.b.Base)/uint64(mem.Grain))
}

// ask asks for blocks, and with freed frees them. Where they lay.
func (t *twins) ask(freed bool, sizes ...mem.Bytes) (at []mem.Addr, err error) {
	var blocks []block
	for _, size := range sizes {
		b, err := t.alloc(0, size)
		if err != nil {
			return nil, err
		}
		blocks, at = append(blocks, b), append(at, b.addr)
	}
	for _, b := range blocks {
		if !freed {
			break
		}
		if err := t.free(b, 0); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// TestForecastBesideAPlan: what a forecast has put where a plan's request is wished is in the
// way of that, though the plan had the place to itself a step ago.
func TestForecastBesideAPlan(t *testing.T) {
	x := newTwins(1)
	defer x.device.Close()
	x.most = uint64(150 * mem.KiB / mem.Grain)
	const open, planned = mem.MiB, 2 * mem.MiB
	at, err := x.ask(true, 8*mem.MiB, 2*planned)
	err = errors.Join(err, x.play(0, wish.Large, []wish.Entry{x.entry(open, x.b.Base), x.entry(planned, at[1]), x.entry(planned, at[1]+mem.Addr(planned))}))
	for range 3 {
		_, also := x.ask(true, open, planned, planned)
		err = errors.Join(err, also, x.boundary())
	}
	err = errors.Join(err, x.play(0, wish.Foreseen, []wish.Entry{x.entry(open, at[1]), 0, 0}))
	_, also := x.ask(true, open, planned, planned)
	if err = errors.Join(err, also, x.same()); err != nil {
		t.Fatal(err)
	}
	if x.foreseen == 0 {
		t.Error("the forecast served nothing")
	}
}

// TestReelComesBack: a block that another reel has placed meanwhile is in the way, though the
// reel had the place to itself when it was played last.
func TestReelComesBack(t *testing.T) {
	x := newTwins(1)
	defer x.device.Close()
	at, err := x.ask(true, 8*mem.MiB, 4*mem.MiB)
	reels := []*Reel{
		x.device.Build([]wish.Entry{x.entry(2*mem.MiB, at[1]), x.entry(mem.MiB, at[1]+mem.Addr(2*mem.MiB))}, false),
		x.device.Build([]wish.Entry{x.entry(3*mem.MiB, at[1])}, false),
	}
	for i, sizes := range [][]mem.Bytes{{2 * mem.MiB, mem.MiB}, {3 * mem.MiB}, {2 * mem.MiB, mem.MiB}} {
		err = errors.Join(err, x.serve(0, wish.Large, reels[i%2], 0))
		for range 3 {
			_, also := x.ask(true, sizes...)
			err = errors.Join(err, also, x.boundary())
		}
		if i == 1 {
			_, also := x.ask(false, sizes...)
			err = errors.Join(err, also, x.boundary())
		}
	}
	if err = errors.Join(err, x.same()); err != nil {
		t.Fatal(err)
	}
	if x.hits < 10 {
		t.Errorf("C served %d requests where they were wished", x.hits)
	}
}

// TestAnnouncedInOrder: what is announced is freed in that order, by which steps are told apart.
func TestAnnouncedInOrder(t *testing.T) {
	x := newTwins(1)
	defer x.device.Close()
	var at []mem.Addr
	for range 5 {
		b, err := x.alloc(0, 2*mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, b.addr)
	}
	x.device.Events()
	x.device.Announce(at...)
	var freed []mem.Addr
	for _, e := range x.device.Events() {
		freed = append(freed, mem.Addr(e.Addr))
	}
	if !slices.Equal(freed, at) {
		t.Errorf("freed %x, announced %x", freed, at)
	}
}
