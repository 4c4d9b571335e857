package onerange

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// script turns bytes into events for a device: a fuzzer's input and a random
// test's alike. It returns the first broken rule.
func script(d *device, data []byte, checkEvery int) error {
	next := func() int {
		if len(data) == 0 {
			return 0
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
			if err := d.eng.Check(); err != nil {
				return fmt.Errorf("after event %d: %w", n, err)
			}
		}
	}
	return d.finish()
}

func one(d *device, req uint64, next func() int) error {
	switch k := next() % 32; {
	case k < 14:
		return d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: size(next(), next()),
			Stream: stream(next()), Means: means(k)})
	case k < 15:
		return d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: size(next(), next()),
			Stream: stream(next()), Pool: uint64(next() % 3)})
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
		if n := next() % 8; n < 2 {
			return d.step(engine.Event{Kind: engine.EvCapture, Pool: uint64(n + 1)})
		}
		return d.step(engine.Event{Kind: engine.EvBoundary})
	default:
		switch next() % 4 {
		case 0:
			pools := []uint64{0, 1, 2, engine.Regions}
			n := next()
			return d.trim(pools[n%4], mem.Bytes(n/4%4)*8*mem.MiB)
		case 1:
			if op, once := d.granted[uint64(next())%req]; once { // perhaps its place is free
				return d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: op.Size,
					Stream: stream(next()), Pool: uint64(next() % 3), Addr: op.Addr,
					Exact: true})
			}
		case 2:
			if n := len(d.resting); n > 0 && next()%2 == 0 {
				return d.rise(next() % n)
			}
			n := next()
			return d.step(engine.Event{Kind: engine.EvLend, Asked: mem.Bytes(n%32) * mem.MiB,
				Unit: mem.Bytes(n/32) * 2 * mem.MiB})
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
		return mem.Bytes(b+1) * 37 * mem.KiB
	case 2:
		return mem.Bytes(b%8+1) * 3 * mem.MiB / 2
	}
	return mem.Bytes(b%12+1) * mem.MiB
}

func stream(b int) mem.StreamID { return mem.StreamID(max(b%8-5, 0)) }

// pick chooses a live block.
func (d *device) pick(n int) (uint64, bool) {
	if len(d.blocks) == 0 {
		return 0, false
	}
	reqs := make([]uint64, 0, len(d.blocks))
	for r := range d.blocks {
		reqs = append(reqs, r)
	}
	sort.Slice(reqs, func(i, j int) bool { return reqs[i] < reqs[j] })
	return reqs[n*len(reqs)/256], true
}

// finish frees everything, lets every fence pass, and trims: nothing is left.
func (d *device) finish() error {
	d.failing = nil
	for {
		b, ok := d.pick(0)
		if !ok {
			break
		}
		if err := d.free(b); err != nil {
			return err
		}
	}
	for len(d.fences) > 0 {
		if err := d.pass(0); err != nil {
			return err
		}
	}
	if err := d.eng.Check(); err != nil {
		return err
	}
	// A handle that the driver would not unmap for one pool may serve another by now: it goes
	// when both have been trimmed.
	for _, pool := range []uint64{0, 1, 2, 0} {
		if err := d.step(engine.Event{Kind: engine.EvTrim, Pool: pool}); err != nil {
			return err
		}
	}
	if err := d.eng.Check(); err != nil {
		return err
	}
	s := d.eng.Stats()
	if s.Blocks != 0 || s.Load != 0 || s.Pending != 0 || s.Handles != 0 || s.Mapped != 0 ||
		len(d.handles) != 0 {
		return fmt.Errorf("everything is freed and trimmed, and this is left: %+v, %d handles of the device", s, len(d.handles))
	}
	return nil
}

// variants of policy and device that every random script runs under.
var variants = []struct {
	name     string
	cfg      func(*Config)
	capacity int // pages
	faults   int // one driver call in so many fails; 0: none
}{
	{"plain", func(c *Config) {}, 0, 0},
	{"large handles", func(c *Config) { c.HandlePart = 8 }, 0, 0},
	{"small handles", func(c *Config) { c.HandleMost = 0 }, 0, 0},
	{"largest price", func(c *Config) {
		c.HandlePart, c.HandleMost, c.GrowPart, c.SmallLimit = 1, 1<<30, 1, 1<<20
	}, 0, 0},
	{"least price", func(c *Config) {
		c.HandlePart, c.HandleMost, c.GrowPart, c.SmallLimit = 1<<16, 2<<20, 1<<10, 512
	}, 0, 0},
	{"odd parts", func(c *Config) { c.HandlePart, c.GrowPart = 3, 13 }, 0, 0},
	{"no stitching", func(c *Config) { c.Without = without.Stitch }, 0, 0},
	{"limit", func(c *Config) { c.Limit = 48 * mem.HandleSize }, 0, 0},
	{"capacity", func(c *Config) { c.HandlePart = 8 }, 48, 0},
	{"faults", func(c *Config) {}, 64, 40},
	{"many faults", func(c *Config) { c.HandlePart = 8 }, 48, 6},
	{"small window", func(c *Config) { c.Window = 512 * mem.MiB }, 0, 0},
}

func TestRandom(t *testing.T) {
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			for round := range 6 {
				seed := uint64(i)<<8 | uint64(round)
				rng := rand.New(rand.NewPCG(seed, 1))
				data := make([]byte, 400<<min(round, 4))
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				cfg := DefaultConfig()
				v.cfg(&cfg)
				d := newDevice(cfg)
				d.persistent = true
				d.capacity = unit(v.capacity) * pageUnits
				if v.faults > 0 {
					d.failing = func(int, engine.Op) bool { return rng.IntN(v.faults) == 0 }
				}
				if err := script(d, data, 16); err != nil {
					t.Fatalf("seed %d, %d bytes: %v", seed, len(data), err)
				}
			}
		})
	}
}

func FuzzEngine(f *testing.F) {
	f.Add([]byte("allocate, free, allocate again, and so on for a while"), byte(0), byte(0))
	f.Add([]byte{0, 3, 31, 0, 0, 3, 31, 0, 16, 0, 0, 2, 7, 0, 30, 0, 3, 31, 0}, byte(3), byte(0))
	f.Add([]byte{0, 3, 31, 0, 26, 0, 7, 16, 0, 0, 3, 31, 6, 28, 0, 31, 0}, byte(5), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, variant, fail byte) {
		v := variants[int(variant)%len(variants)]
		cfg := DefaultConfig()
		v.cfg(&cfg)
		d := newDevice(cfg)
		d.persistent = true
		d.capacity = unit(v.capacity) * pageUnits
		if fail > 0 {
			d.failing = func(call int, _ engine.Op) bool { return call%int(fail) == 0 }
		}
		if err := script(d, data[:min(len(data), 4096)], 8); err != nil {
			t.Fatalf("variant %q: %v", v.name, err)
		}
	})
}

// means are two of three times that others lend, and one of five that the request waits.
func means(k int) (m engine.Means) {
	if k%3 > 0 {
		m |= engine.MeansBorrow
	}
	if k%5 == 0 {
		m |= engine.MeansWait
	}
	return m
}
