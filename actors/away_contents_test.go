package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/actors/host"
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// TestContentsAway: four regions that leave in several batches each come and go, beside blocks of
// the default pool, captures, pauses and other limits, on two streams. Whatever fails, work finds
// what was written there, no work and no copy meets memory that is not there any more, and in the
// end every region opens.
func TestContentsAway(t *testing.T) {
	outs := 0
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			k := newScribe(t, seed)
			for n := 0; n < 400 && !t.Failed(); n++ {
				k.dev.locked(func() {
					if k.dev.fails = 0; seed%3 > 0 && n%3 == 0 {
						k.dev.fails = 6 + 8*int(seed%5)
					}
				})
				k.act()
				k.sound()
			}
			k.end()
			outs += k.dev.outs
		})
	}
	if outs < 1000 {
		t.Errorf("%d copies", outs)
	}
}

// scribe is a random program that writes to its blocks and reads them.
type scribe struct {
	*Local
	t       *testing.T
	dev     *contents
	host    *capturing
	rand    *rand.Rand
	live    []*written
	regions [4]*chapter
	last    uint64 // number that was written
}

// written is a block, and what its stream wrote there.
type written struct {
	at     mem.Addr
	size   mem.Bytes
	stream mem.StreamID
	number uint64
}

// chapter is a region. All work that uses it is on its stream.
type chapter struct {
	pool          uint64
	open, changed bool // since it was opened
	stream        mem.StreamID
	blocks        []*written
}

func newScribe(t *testing.T, seed uint64) *scribe {
	dev := newContents(2*mem.GiB, rand.New(rand.NewPCG(seed, 3)))
	h := &capturing{Model: host.NewModel()}
	d, err := Open(dev, h, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &scribe{Local: NewLocal(d, h.Model), t: t, dev: dev, host: h,
		rand: rand.New(rand.NewPCG(seed, 4))}
	k.PersistentStream(1)
	for i := range k.regions {
		number, err := region.Number(fmt.Sprintf("test: contents %d", i))
		if err != nil {
			t.Fatal(err)
		}
		k.regions[i] = &chapter{pool: number, open: true}
	}
	return k
}

// sound fails if the device has found anything wrong.
func (k *scribe) sound() {
	k.t.Helper()
	k.dev.locked(func() {
		if err := errors.Join(append(k.dev.faults, k.dev.Violations()...)...); err != nil {
			k.t.Error(err)
		}
	})
}

func (k *scribe) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Error(err)
	}
}

func (k *scribe) act() {
	x, id := k.regions[k.rand.IntN(len(k.regions))], mem.StreamID(k.rand.IntN(2))
	switch dice := k.rand.IntN(100); {
	case dice < 22:
		if b := k.get(0, id); b != nil {
			k.live = append(k.live, b)
		}
	case dice < 36 && len(k.live) > 0:
		k.drop(&k.live)
	case dice < 46 && x.open:
		if b := k.get(x.pool, x.stream); b != nil {
			x.blocks, x.changed = append(x.blocks, b), true
		}
	case dice < 50 && len(x.blocks) > 0:
		k.drop(&x.blocks)
	case dice < 66 && x.open:
		k.closes(x)
	case dice < 80 && !x.open:
		k.opens(x, id)
	case dice < 84 && x.open:
		k.use(x)
	case dice < 86:
		_ = k.Prefetch(x.pool)
	case dice < 88:
		_ = k.Trim([]uint64{0, x.pool}[k.rand.IntN(2)])
	case dice < 90:
		k.must(k.Limit(0.5 + float64(k.rand.IntN(51))/100))
	case dice < 92 && !x.open && k.host.pools.Load() == 0:
		_ = k.Pause([]uint64{x.pool}, true)
		k.dev.locked(func() { k.dev.fails = 0 })
		k.must(k.Resume([]uint64{x.pool}))
	case dice < 95:
		k.host.pools.Store(int64(k.rand.IntN(3) / 2))
	case dice < 96:
		k.must(k.Step())
	default:
		k.must(k.dev.DropStream(id)) // its work ends
	}
}

// get returns a block that its stream writes to; nil: there is no room.
func (k *scribe) get(pool uint64, id mem.StreamID) *written {
	size := mem.HandleSize * mem.Bytes(1+k.rand.IntN(1<<k.rand.IntN(8)))
	at, err := k.MallocIn(id, pool, size)
	if err != nil {
		return nil
	}
	b := &written{at: at, size: size, stream: id}
	k.write(b)
	return b
}

func (k *scribe) write(b *written) {
	k.last += 1 << 40
	number := k.last
	b.number = number
	k.dev.locked(func() {
		k.dev.work("a write", b.stream, b.at, b.size, nil, func(off mem.Bytes, x spot) {
			k.dev.numbers[x] = number + uint64(off)
		})
	})
}

func (k *scribe) read(b *written) {
	number, at := b.number, b.at
	k.dev.locked(func() {
		k.dev.work("a read", b.stream, b.at, b.size, nil, func(off mem.Bytes, x spot) {
			if got := k.dev.numbers[x]; got != number+uint64(off) {
				k.dev.fault("%#x + %v has %x, not %x", uint64(at), off, got, number+uint64(off))
			}
		})
	})
}

// drop frees a block of an open region, or of the default pool, after a last read; of a closed
// region without one.
func (k *scribe) drop(blocks *[]*written) {
	i := k.rand.IntN(len(*blocks))
	b := (*blocks)[i]
	*blocks = slices.Delete(*blocks, i, i+1)
	shut := func(x *chapter) bool { return &x.blocks == blocks && !x.open }
	if !slices.ContainsFunc(k.regions[:], shut) {
		k.read(b)
	}
	k.must(k.Release(b.at))
}

// use reads all of an open region, and may write to it.
func (k *scribe) use(x *chapter) {
	writes := k.rand.IntN(3) == 0
	x.changed = x.changed || writes
	for _, b := range x.blocks {
		b.stream = x.stream
		if k.read(b); writes {
			k.write(b)
		}
	}
}

func (k *scribe) closes(x *chapter) {
	how := pool.Closing{Changed: x.changed, All: k.rand.IntN(2) == 0, More: k.rand.IntN(2) == 0}
	captured := k.host.pools.Load() > 0
	if err := k.EndAwake(x.pool, x.stream, how); err == nil && !captured {
		x.open, x.changed = false, false
	}
}

func (k *scribe) opens(x *chapter, id mem.StreamID) {
	if err := k.BeginAwake(x.pool, id); err == nil {
		x.open, x.stream = true, id
		k.use(x)
	} else if k.rand.IntN(2) == 0 {
		for len(k.live) > 0 {
			k.drop(&k.live)
		}
		k.must(k.dev.Sync())
	}
}

// end opens one region after the other, where nothing fails.
func (k *scribe) end() {
	k.dev.locked(func() { k.dev.fails = 0 })
	k.host.pools.Store(0)
	for len(k.live) > 0 {
		k.drop(&k.live)
	}
	k.must(errors.Join(k.Limit(1), k.dev.Sync(), k.Trim(0)))
	for range 2 {
		for _, x := range k.regions {
			if x.open {
				k.closes(x)
			}
		}
		for _, x := range k.regions {
			if k.opens(x, 0); !x.open {
				k.t.Errorf("region %d does not open", x.pool)
			}
			k.closes(x)
		}
	}
	k.must(errors.Join(k.dev.Sync(), k.Check(), k.Close()))
	k.sound()
}
