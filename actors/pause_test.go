package actors

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// TestPlansGoOnBehindSleep: the next step is served as if there had been none.
func TestPlansGoOnBehindSleep(t *testing.T) {
	k := newKit(t, Options{})
	sizes := tens(20)
	k.learn(sizes...)
	before := k.Stats()
	if err := k.Pause(nil, false); err != nil {
		t.Fatal(err)
	}
	if used := k.gpu.Used(); used != 0 {
		t.Errorf("%v is taken of what sleeps", used)
	}
	k.boundary() // no step
	if text := k.Explain(); !strings.Contains(text,
		before.Reserved.String()+" sleeps and is not held") {
		t.Errorf("the explanation does not say what sleeps:\n%s", text)
	}
	if err := k.Resume(nil); err != nil {
		t.Fatal(err)
	}
	if s := k.Stats(); s.Reserved != before.Reserved || s.DriverCalls <= before.DriverCalls {
		t.Errorf("awake %+v, before %+v", s.Stats, before.Stats)
	}
	hits := k.Stats().Hits
	k.play(sizes...)
	if s := k.Stats(); s.Hits-hits != uint64(len(sizes)) ||
		s.Engine.Creates != before.Engine.Creates {
		t.Errorf("of %d requests %d were hits, and %d handles were made", len(sizes), s.Hits-hits,
			s.Engine.Creates-before.Engine.Creates)
	}
	k.boundary()
}

// TestPrivatePoolsStayAwake, and are told with their memory.
func TestPrivatePoolsStayAwake(t *testing.T) {
	k := newKit(t, Options{})
	k.malloc(mem.MiB)
	if text := k.Explain(); strings.Contains(text, "Awake") {
		t.Errorf("there is no private pool:\n%s", text)
	}
	x, err := k.MallocIn(0, 7, 3*mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Pause(nil, false); err != nil {
		t.Fatal(err)
	}
	awake := k.Stats().Reserved
	text := strings.Join(strings.Fields(k.Explain()), " ")
	if awake == 0 || !strings.Contains(text,
		"Awake when the rest sleeps: "+awake.String()+" in private pools.") {
		t.Errorf("%v of a private pool is awake:\n%s", awake, text)
	}
	k.release(x)
	if err := k.Resume(nil); err != nil {
		t.Fatal(err)
	}
}

// bytes is a simulated device that says it has contents.
type bytes struct{ device.Device }

func (bytes) Read([]byte, mem.Addr) error  { return nil }
func (bytes) Write(mem.Addr, []byte) error { return nil }
func (bytes) Pin([]byte) error             { return nil }
func (bytes) Unpin([]byte) error           { return nil }

// TestNoRoomOnTheHost: nothing has changed, whatever is said about it.
func TestNoRoomOnTheHost(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: 16 * mem.TiB})
	l, err := OpenLocal(bytes{gpu}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const most = 900 * mem.GiB
	if hostmem.Check(most) == nil {
		t.Fatalf("this host has room for %v: the test needs one that has less", most)
	}
	if _, err := l.Malloc(0, most); err != nil {
		t.Fatal(err)
	}
	used, unmaps := gpu.Used(), gpu.Stats().Unmap
	if err := l.Pause(nil, true); !errors.Is(err, hostmem.ErrFull) {
		t.Errorf("a backup of %v: %v", used, err)
	}
	if gpu.Used() != used || gpu.Stats().Unmap != unmaps || l.Stats().Asleep != 0 {
		t.Errorf("%v of %v is taken", gpu.Used(), used)
	}
	if err := errors.Join(l.Check(), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestCannotSleep: what is refused changes nothing.
func TestCannotSleep(t *testing.T) {
	k, fault := newFaultyKit(t, Options{})
	k.malloc(mem.MiB)
	if err := k.Pause(nil, true); err == nil || k.gpu.Used() == 0 {
		t.Errorf("contents are kept of a device that has none: %v", err)
	}
	fault.Set(devicetest.Rule{Kind: devicetest.CallSync, Code: captured})
	if err := k.Pause(nil, false); err == nil || k.gpu.Used() == 0 {
		t.Errorf("memory sleeps on a device that cannot be waited for: %v", err)
	}
	fault.Set()
}

// TestPeersBehindSleep: other devices have their rights again.
func TestPeersBehindSleep(t *testing.T) {
	gpu := devicetest.NewRights(sim.New(sim.Config{}))
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Malloc(0, 20*mem.MiB); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Pause(nil, false), l.Share(3)); err != nil { // which sleeps
		t.Fatal(err)
	}
	if len(gpu.May) != 0 {
		t.Errorf("%d pages are usable of what sleeps", len(gpu.May))
	}
	if err := l.Resume(nil); err != nil {
		t.Fatal(err)
	}
	if len(gpu.May) < 10 {
		t.Errorf("%d pages of 20 MiB are usable", len(gpu.May))
	}
	for at, who := range gpu.May {
		if !slices.Equal(who, []int{3}) {
			t.Errorf("page %#x is usable by %v", uint64(at), who)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestRegions: names are told apart, and unknown ones refused with what is known.
func TestRegions(t *testing.T) {
	a, err := region.Number("test: a")
	b, err2 := region.Number("test: b")
	again, err3 := region.Number("test: a")
	if errors.Join(err, err2, err3) != nil || a == b || a != again {
		t.Errorf("%d, %d, %d: %v %v %v", a, b, again, err, err2, err3)
	}
	if pools, err := region.Numbers([]string{"test: b", "test: a"}); err != nil ||
		!slices.Equal(pools, []uint64{b, a}) {
		t.Errorf("%v, %v", pools, err)
	}
	if _, err := region.Numbers([]string{"test: a", "test: c"}); !errors.Is(err, ErrNoRegion) {
		t.Errorf("an unknown one: %v", err)
	}
	if _, err := region.Number(""); !errors.Is(err, ErrNoRegion) {
		t.Errorf("one without a name: %v", err)
	}
}

// TestIdleRegionServesOthers: when the device is full, and when idle memory is given back.
func TestIdleRegionServesOthers(t *testing.T) {
	k := newKit(t, Options{})
	pool, err := region.Number("test: idle")
	if err != nil {
		t.Fatal(err)
	}
	const most = 6 * mem.GiB
	for range 2 {
		addr, err := k.MallocIn(0, pool, most)
		if err != nil {
			t.Fatal(err)
		}
		k.release(addr)
		k.release(k.malloc(most))
	}
	addr, err := k.MallocIn(0, pool, mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	k.release(addr)
	if err := k.Trim(0); err != nil || k.gpu.Used() != 0 {
		t.Errorf("%v is held of what is idle: %v", k.gpu.Used(), err)
	}
}
