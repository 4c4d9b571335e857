package gmlake

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// script turns bytes into events for a device: a fuzzer's input and a random
// test's alike. It returns the first broken rule.
func script(d *device, data []byte, checkEvery int) error {
	next := func() int {
		if len(data) == 0 {
			return 255
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	for n := 1; len(data) > 0; n++ {
		if err := one(d, uint64(n), next); err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if n%checkEvery == 0 {
			if err := d.pool.Check(); err != nil {
				return fmt.Errorf("after event %d: %w", n, err)
			}
		}
	}
	return d.finish()
}

func one(d *device, req uint64, next func() int) error {
	ev := engine.Event{Kind: engine.EvAlloc, Req: req}
	switch k := next() % 32; {
	case k < 13:
		ev.Asked, ev.Stream = size(next(), next()), stream(next())
		if k == 0 {
			ev.Pool = uint64(next() % 3)
		}
		return d.step(ev)
	case k < 26:
		if b, ok := d.pick(next()); ok {
			return d.free(b)
		}
	case k < 28:
		if b, ok := d.pick(next()); ok {
			return d.record(b, stream(next()))
		}
	case k < 30:
		if len(d.fences) > 0 {
			return d.pass(next() % len(d.fences))
		}
	case k < 31:
		return d.step(engine.Event{Kind: engine.EvBoundary})
	default:
		if next()%4 > 0 {
			return d.step(engine.Event{Kind: engine.EvTrim, Pool: uint64(max(next()%16-13, 0))})
		}
		return d.step(engine.Event{Kind: engine.EvFree, Addr: mem.Addr(next()) << 20}) // no block
	}
	return nil
}

// size makes small, medium and large sizes, often the same ones.
func size(a, b int) mem.Bytes {
	switch a % 4 {
	case 0:
		return mem.Bytes(b) * 700
	case 1:
		return mem.Bytes(b%32+1) * 37 * mem.KiB
	case 2:
		return mem.Bytes(b%8+1) * 3 * mem.MiB / 2
	}
	return mem.Bytes(b%24+1) * mem.MiB
}

func stream(b int) mem.StreamID { return mem.StreamID(max(b%16-13, 0)) }

// pick chooses a live block.
func (d *device) pick(n int) (uint64, bool) {
	if len(d.blocks) == 0 {
		return 0, false
	}
	reqs := slices.Sorted(maps.Keys(d.blocks))
	return reqs[n*len(reqs)/256], true
}

// finish frees everything, lets every fence pass, and trims: nothing is left.
func (d *device) finish() error {
	d.failing = nil
	for b, ok := d.pick(0); ok; b, ok = d.pick(0) {
		if err := d.free(b); err != nil {
			return err
		}
	}
	for len(d.fences) > 0 {
		if err := d.pass(0); err != nil {
			return err
		}
	}
	if err := d.pool.Check(); err != nil {
		return err
	}
	for pool := range uint64(3) {
		if err := d.step(engine.Event{Kind: engine.EvTrim, Pool: pool}); err != nil {
			return err
		}
	}
	if err := d.pool.Check(); err != nil {
		return err
	}
	s := d.pool.Stats()
	if s.Blocks != 0 || s.Load != 0 || s.Pending != 0 || s.Handles != 0 || s.Mapped != 0 ||
		s.Views != 0 || len(d.handles) != 0 || len(d.mapped) != 0 {
		return fmt.Errorf("everything is freed and trimmed, and this is left: %+v, %d handles and %d mappings of the device", s, len(d.handles), len(d.mapped))
	}
	return nil
}

// variants of parameters and device that every random script runs under.
var variants = []struct {
	name     string
	cfg      func(*Config)
	capacity int
	faults   int // one driver call in so many fails; 0: none
}{
	{"plain", func(c *Config) { c.FragLimit = 0 }, 0, 0},
	{"no stitching", func(c *Config) {}, 0, 0},
	{"limit", func(c *Config) { c.FragLimit, c.Limit = 0, 60*pageSize }, 0, 0},
	{"capacity", func(c *Config) { c.FragLimit = 6 * mem.MiB }, 60, 0},
	{"level 1", func(c *Config) { c.FragLimit, c.DefragLevel = 0, 1 }, 60, 0},
	{"level 2", func(c *Config) { c.FragLimit, c.DefragLevel = 0, 2 }, 60, 0},
	{"exact reuse", func(c *Config) { c.FragLimit, c.ReuseLimit = 0, 1 }, 60, 0},
	{"collection", func(c *Config) { c.FragLimit, c.AutoGC = 0, 64*mem.MiB }, 80, 0},
	{"faults", func(c *Config) { c.FragLimit = 0 }, 80, 40},
	{"many faults", func(c *Config) { c.FragLimit = 0 }, 60, 6},
	{"small window", func(c *Config) { c.FragLimit, c.Window = 0, 256*mem.MiB }, 0, 0},
	{"small window, faults", func(c *Config) { c.FragLimit, c.Window = 0, 256*mem.MiB }, 70, 30},
}

func TestRandom(t *testing.T) {
	var sum engine.Stats
	doomed := 0
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			for round := range 6 {
				seed := uint64(i)<<8 | uint64(round)
				rng := rand.New(rand.NewPCG(seed, 3))
				data := make([]byte, 400<<min(round, 4))
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				cfg := DefaultConfig()
				v.cfg(&cfg)
				d := newDevice(cfg)
				d.capacity = v.capacity
				if v.faults > 0 {
					d.failing = func(_ int, op engine.Op) bool {
						often := v.faults
						if op.Kind == engine.OpAccess { // there is one for each chunk
							often *= 16
						}
						return rng.IntN(often) == 0
					}
				}
				if err := script(d, data, 16); err != nil {
					t.Fatalf("seed %d, %d bytes: %v", seed, len(data), err)
				}
				s := d.pool.Stats()
				sum.Stitches += s.Stitches
				sum.Evicted += s.Evicted
				sum.Refused += s.Refused
				doomed += d.doomed
			}
		})
	}
	t.Logf("%d stitches, %d sBlocks dropped, %d requests refused, %d sBlocks doomed", sum.Stitches,
		sum.Evicted, sum.Refused, doomed)
	if sum.Stitches == 0 || sum.Evicted == 0 || sum.Refused == 0 || doomed == 0 {
		t.Error("the scripts miss what they are for")
	}
}

func FuzzPool(f *testing.F) {
	f.Add([]byte("allocate, free, allocate again, and so on for a while"), byte(0), byte(0))
	f.Add([]byte{1, 3, 11, 0, 1, 3, 11, 0, 16, 0, 1, 3, 23, 0, 31, 0, 0, 15, 2, 7, 0, 31, 1},
		byte(3), byte(0))
	f.Add([]byte{1, 3, 11, 0, 26, 0, 15, 16, 0, 1, 3, 11, 14, 28, 0, 31, 0, 7}, byte(4), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, variant, fail byte) {
		v := variants[int(variant)%len(variants)]
		cfg := DefaultConfig()
		v.cfg(&cfg)
		d := newDevice(cfg)
		d.capacity = v.capacity
		if fail > 0 {
			d.failing = func(call int, _ engine.Op) bool { return call%int(fail) == 0 }
		}
		if err := script(d, data[:min(len(data), 4096)], 8); err != nil {
			t.Fatalf("variant %q: %v", v.name, err)
		}
	})
}
