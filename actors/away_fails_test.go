package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// failing is a device whose calls for copies and events fail now and then. The mover calls it, too.
type failing struct {
	*sim.Device
	mu   sync.Mutex
	rand *rand.Rand
	on   atomic.Bool
}

var errFailing = errors.New("the device fails")

func (d *failing) fails() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on.Load() && d.rand.IntN(8) == 0 {
		return errFailing
	}
	return nil
}

func (d *failing) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Device.CopyOut(to, from, on)
}

func (d *failing) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Device.CopyBack(to, from, on)
}

func (d *failing) Record(s mem.StreamID) (driver.Fence, error) {
	if err := d.fails(); err != nil {
		return 0, err
	}
	return d.Device.Record(s)
}

func (d *failing) Await(s mem.StreamID, f driver.Fence) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Device.Await(s, f)
}

const failingUnit = 64 * mem.MiB

// fullDevice is a random program with five regions, more than the device has room for.
type fullDevice struct {
	*Local
	t       *testing.T
	dev     *failing
	live    []mem.Addr
	regions [5]fullRegion
}

type fullRegion struct {
	number uint64
	open   bool
	blocks []mem.Addr
}

// TestAwayFails: whatever fails, no work ever uses what is not there, nothing is unmapped where
// copies are under way, and once calls succeed again every region opens.
func TestAwayFails(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		dev := &failing{Device: sim.New(sim.Config{Capacity: 16 * failingUnit, FenceDelay: 2}),
			rand: rand.New(rand.NewPCG(seed, 7))}
		l, err := OpenLocal(dev, Options{Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		k := &fullDevice{Local: l, t: t, dev: dev}
		for i := range k.regions {
			number, err := region.Number(fmt.Sprintf("test: fails %d", i))
			k.must(err)
			k.regions[i] = fullRegion{number: number, open: true}
		}
		for n := range 500 {
			dev.on.Store(n > 50 && n%3 == 0)
			k.act(r, &k.regions[r.IntN(len(k.regions))])
			k.must(k.Check())
		}
		k.end()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (k *fullDevice) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Error(err)
	}
}

func (k *fullDevice) act(r *rand.Rand, x *fullRegion) {
	switch dice := r.IntN(100); {
	case dice < 25:
		if at, err := k.Malloc(0, mem.Bytes(1+r.IntN(4))*failingUnit); err == nil {
			k.live = append(k.live, at)
			k.must(k.dev.Use(0, at, failingUnit))
		}
	case dice < 45 && len(k.live) > 0:
		k.must(k.Release(k.live[len(k.live)-1]))
		k.live = k.live[:len(k.live)-1]
	case dice < 52 && x.open && len(x.blocks) < 3:
		if at, err := k.MallocIn(0, x.number, failingUnit); err == nil {
			x.blocks = append(x.blocks, at)
		}
	case dice < 55 && x.open && len(x.blocks) > 0:
		k.must(k.Release(x.blocks[0]))
		x.blocks = x.blocks[1:]
	case dice < 72 && x.open:
		how := pool.Closing{Changed: r.IntN(2) == 0, More: r.IntN(2) == 0, All: r.IntN(5) == 0}
		x.open = k.EndAwake(x.number, 0, how) != nil
	case dice < 90 && !x.open:
		_ = k.open(x)
	case dice < 92:
		_ = k.Prefetch(x.number) // what cannot come back yet comes later
	case dice < 94:
		k.must(k.Limit(0.5 + float64(r.IntN(50))/100))
	default:
		k.dev.Finish(0)
	}
}

func (k *fullDevice) open(x *fullRegion) error {
	if err := k.BeginAwake(x.number, 0); err != nil {
		return err
	}
	x.open = true
	for _, at := range x.blocks {
		k.must(k.dev.Use(0, at, failingUnit))
	}
	return nil
}

// end opens one region after the other, where no call fails.
func (k *fullDevice) end() {
	k.dev.on.Store(false)
	for _, at := range k.live {
		k.must(k.Release(at))
	}
	k.must(k.Limit(1))
	k.dev.Finish(0)
	for i := range k.regions {
		if x := &k.regions[i]; x.open {
			k.must(k.EndAwake(x.number, 0, pool.Closing{Changed: true}))
		}
	}
	for i := range k.regions {
		x := &k.regions[i]
		k.must(k.open(x))
		k.must(k.EndAwake(x.number, 0, pool.Closing{Changed: true}))
	}
	k.dev.Finish(0)
	k.must(errors.Join(k.Check(), k.Close()))
}

// partly is a device that cannot copy out some of its memory.
type partly struct {
	*sim.Device
	from, to mem.Addr
}

func (d *partly) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	if from >= d.from && from < d.to {
		return errFailing
	}
	return d.Device.CopyOut(to, from, on)
}

// TestAnotherRegionMakesRoom: where one cannot be copied, which is known when its turn has come,
// another one leaves.
func TestAnotherRegionMakesRoom(t *testing.T) {
	const unit = 64 * mem.MiB
	gpu := sim.New(sim.Config{Capacity: 8 * unit})
	dev := &partly{Device: gpu}
	k := newAwayKitOn(t, gpu, dev, unit)
	number, err := region.Number("test: cannot leave")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		at, err := k.MallocIn(0, number, unit)
		if err != nil {
			t.Fatal(err)
		}
		if dev.from == 0 || at < dev.from {
			dev.from = at
		}
		dev.to = max(dev.to, at+mem.Addr(unit))
	}
	k.end(true)
	err = k.EndAwake(number, 0, pool.Closing{Changed: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := k.Malloc(0, unit); err != nil {
			t.Error(err)
		}
	}
}

// TestPauseSaysWhy: with what the driver said. What it advises helps: contents that are discarded
// are not copied.
func TestPauseSaysWhy(t *testing.T) {
	const unit = 64 * mem.MiB
	gpu := sim.New(sim.Config{Capacity: 8 * unit})
	dev := &partly{Device: gpu, to: 1 << 62}
	k := newAwayKitOn(t, gpu, dev, unit)
	k.end(true)
	pools := []uint64{k.region}
	if err := k.Pause(pools, true); !errors.Is(err, errFailing) {
		t.Error(err)
	}
	if err := k.Pause(pools, false); err != nil || gpu.Used() > 0 {
		t.Errorf("%v are held of what was discarded: %v", gpu.Used(), err)
	}
	if err := k.Resume(pools); err != nil {
		t.Error(err)
	}
	k.use()
}
