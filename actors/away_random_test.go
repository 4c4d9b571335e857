package actors

import (
	"errors"
	"math/rand/v2"
	"testing"

	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestAwayRandom: regions come and go while streams work on blocks of the default pool, near the
// limit, the device's or the program's. No work ever touches what is not there, nothing is unmapped
// that work still uses, and the device never holds more than the limit.
func TestAwayRandom(t *testing.T) {
	for seed := range uint64(40) {
		k := &away{rand: rand.New(rand.NewPCG(seed, 1)), t: t}
		capacity := 4 * mem.GiB << (seed % 2)
		k.gpu = sim.New(sim.Config{Capacity: capacity, FenceDelay: 2})
		var err error
		if k.Local, err = OpenLocal(k.gpu, Options{Inline: true}); err != nil {
			t.Fatal(err)
		}
		k.must(k.Limit(float64(4*mem.GiB) / float64(capacity)))
		k.PersistentStream(1)
		k.play(800)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// away is a random program.
type away struct {
	*Local
	gpu    *sim.Device
	rand   *rand.Rand
	t      *testing.T
	live   []mem.Addr
	sizes  map[mem.Addr]mem.Bytes
	region [2]struct {
		number uint64
		blocks []mem.Addr
		open   bool
		stream mem.StreamID // that has used it
	}
	served, opened, full int
}

func (k *away) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Error(err)
	}
}

func (k *away) size(most mem.Bytes) mem.Bytes {
	return 1 + mem.Bytes(k.rand.Int64N(int64(mem.KiB)<<k.rand.IntN(17)))%most
}

func (k *away) play(n int) {
	k.sizes = map[mem.Addr]mem.Bytes{}
	for i := range k.region {
		k.region[i].number, _ = region.Number("test: random " + string(rune('0'+i)))
		k.region[i].open = true
	}
	for range n {
		k.act(mem.StreamID(k.rand.IntN(2)), k.rand.IntN(len(k.region)))
		if k.t.Failed() {
			return
		}
	}
	k.gpu.Finish(0)
	k.gpu.Finish(1)
	k.must(errors.Join(k.Check(), k.Close()))
	if k.opened < 20 || k.served < 200 {
		k.t.Errorf("%d served, %d opened, memory was short %d times", k.served, k.opened, k.full)
	}
}

func (k *away) act(stream mem.StreamID, which int) {
	r := &k.region[which]
	switch dice := k.rand.IntN(100); {
	case dice < 45:
		k.ask(stream)
	case dice < 65:
		k.drop(k.rand.IntN(1 + len(k.live)/6))
	case dice < 72 && r.open:
		k.grow(r.number, &r.blocks, stream)
	case dice < 80 && r.open:
		k.must(k.EndAwake(r.number, r.stream, pool.Closing{Changed: k.rand.IntN(2) == 0,
			All: k.rand.IntN(3) == 0}))
		r.open = false
	case dice < 88 && !r.open:
		k.open(which, stream)
	case dice < 92:
		k.must(k.Prefetch(r.number))
	case dice < 94:
		k.must(k.Trim(0))
	case dice < 95:
		k.drop(len(k.live))
	case dice < 96 && !r.open && k.rand.IntN(2) == 0:
		k.must(k.Pause([]uint64{r.number}, true))
		err := k.Resume([]uint64{r.number})
		k.must(err)
	default:
		k.gpu.Finish(stream)
	}
	if k.gpu.Peak() > 4*mem.GiB {
		k.t.Errorf("%v were held", k.gpu.Peak())
	}
}

func (k *away) ask(stream mem.StreamID) {
	n := k.size(1200 * mem.MiB)
	at, err := k.Malloc(stream, n)
	if err != nil {
		if k.full++; !errors.Is(err, driver.ErrOutOfMemory) {
			k.t.Error(err)
		}
		k.drop(len(k.live) / 2)
		return
	}
	k.served++
	k.live = append(k.live, at)
	k.sizes[at] = n
	k.must(k.gpu.Use(stream, at, n))
}

func (k *away) drop(n int) {
	for range n {
		i := k.rand.IntN(len(k.live))
		k.must(k.Release(k.live[i]))
		delete(k.sizes, k.live[i])
		k.live[i] = k.live[len(k.live)-1]
		k.live = k.live[:len(k.live)-1]
	}
}

// grow asks for a block of a region, or frees one.
func (k *away) grow(region uint64, blocks *[]mem.Addr, stream mem.StreamID) {
	if n := len(*blocks); n > 0 && k.rand.IntN(3) == 0 {
		i := k.rand.IntN(n)
		k.must(k.Release((*blocks)[i]))
		(*blocks)[i] = (*blocks)[n-1]
		*blocks = (*blocks)[:n-1]
		return
	}
	n := k.size(100 * mem.MiB)
	at, err := k.MallocIn(stream, region, n)
	if err != nil {
		if !errors.Is(err, driver.ErrOutOfMemory) {
			k.t.Error(err)
		}
		return
	}
	k.sizes[at] = n
	*blocks = append(*blocks, at)
}

func (k *away) open(which int, stream mem.StreamID) {
	r := &k.region[which]
	err := k.BeginAwake(r.number, stream)
	if err != nil {
		if k.full++; !errors.Is(err, driver.ErrOutOfMemory) {
			k.t.Error(err)
		}
		k.drop(len(k.live))
		k.gpu.Finish(0)
		k.gpu.Finish(1)
		return
	}
	k.opened++
	r.open, r.stream = true, stream
	for _, at := range r.blocks {
		k.must(k.gpu.Use(stream, at, k.sizes[at]))
	}
}
