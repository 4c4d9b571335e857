package captures

import (
	"math/rand/v2"
	"sync"
	"testing"

	"stalloc/actors"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestReplays: whatever happens beside graphs, a replay finds the memory of its capture, and nobody
// outside of its pool has any of it.
func TestReplays(t *testing.T) {
	for _, faults := range []int{0, 60, 8} {
		var did done
		for seed := range uint64(40) {
			r := newRun(t, seed, faults)
			r.play(400)
			did.add(&r.did)
			if t.Failed() {
				t.Fatalf("seed %d, one call in %d fails", seed, faults)
			}
		}
		t.Logf("one call in %d fails: %+v", faults, did)
		if did.replays < 1000 || did.restores < 50 || did.pauses < 50 || did.aliases < 20 {
			t.Errorf("one call in %d fails: too little was done: %+v", faults, did)
		}
	}
}

// TestDrops: of graphs that are captured and dropped a thousand times nothing stays, of a pool that
// they share no more than the first time.
func TestDrops(t *testing.T) {
	r := newRun(t, 1, 0)
	var held mem.Bytes
	for i := range 1000 {
		shared, own := &r.pools[0], &captured{number: uint64(100 + i)}
		r.capture(own)
		r.end(own)
		if len(shared.graphs) == 0 {
			r.capture(shared)
			held = r.gpu.Used()
		}
		if used := r.gpu.Used(); used != held {
			t.Fatalf("%v are held after %d captures, %v after the first", used, i+1, held)
		}
	}
	r.play(0)
}

// done counts what was done.
type done struct{ captures, replays, restores, pauses, openings, refused, aliases int }

func (d *done) add(x *done) {
	d.captures += x.captures
	d.replays += x.replays
	d.restores += x.restores
	d.pauses += x.pauses
	d.openings += x.openings
	d.refused += x.refused
	d.aliases += x.aliases
}

// block is one that was handed out, with the memory behind it.
type block struct {
	at     mem.Addr
	size   mem.Bytes
	stream mem.StreamID
	pool   uint64
	behind []part
}

// part is what a block has of a page of a handle.
type part struct {
	handle driver.Handle
	lo, hi mem.Bytes
}

// graph remembers where its capture had blocks, and which blocks of the pool lived all the while.
type graph struct {
	places []*block
	beside []*block
	state  []*block // that lived when the capture ended: a checkpoint
}

// captured is a private pool of graphs.
type captured struct {
	number uint64
	graphs []*graph
	live   []*block
}

// run is a random program with two pools of graphs and a region beside them.
type run struct {
	*actors.Local
	gpu    *sim.Device
	rand   *rand.Rand
	t      *testing.T
	faults *faults
	asleep bool
	pools  [2]captured
	eager  []*block
	region struct {
		number uint64
		live   []*block
		open   bool
	}
	did done
}

// faults says which calls of the driver fail. The mover's thread calls it, too.
type faults struct {
	mu         sync.Mutex
	rand       *rand.Rand
	each       int  // one call in so many fails; 0: none
	suppressed bool // none fails for now
}

// suppress has no call fail, or again some, and returns what was.
func (f *faults) suppress(suppressed bool) (was bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, f.suppressed = f.suppressed, suppressed
	return was
}

// failing is the device with calls that fail at random.
type failing struct {
	*sim.Device
	faults *faults
}

func (f failing) fails() error {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	if f.faults.each == 0 || f.faults.suppressed || f.faults.rand.IntN(f.faults.each) > 0 {
		return nil
	}
	return &driver.Error{Call: "made to fail", Code: driver.CodeOutOfMemory}
}

func (f failing) Create(size mem.Bytes) (driver.Handle, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.Device.Create(size)
}

func (f failing) Map(at mem.Addr, h driver.Handle) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Device.Map(at, h)
}

func (f failing) Access(at mem.Addr, size mem.Bytes) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Device.Access(at, size)
}

func (f failing) Unmap(at mem.Addr, size mem.Bytes) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Device.Unmap(at, size)
}

func newRun(t *testing.T, seed uint64, each int) *run {
	r := &run{rand: rand.New(rand.NewPCG(seed, uint64(each))), t: t,
		faults: &faults{rand: rand.New(rand.NewPCG(uint64(each), seed)), each: each}}
	r.gpu = sim.New(sim.Config{Capacity: 3 * mem.GiB, FenceDelay: 2})
	local, err := actors.OpenLocal(failing{r.gpu, r.faults}, actors.Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Local = local
	r.PersistentStream(1)
	r.region.number, _ = region.Number("test: beside graphs")
	r.region.open = true
	for i := range r.pools {
		r.pools[i].number = uint64(7 + i)
	}
	return r
}
