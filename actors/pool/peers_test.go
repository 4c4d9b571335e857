package pool

import (
	"errors"
	"slices"
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/actors/device/sleeper"
	"stalloc/cuda/sim"
	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestShareLargerHandles: the runner passes a handle's size on, and a peer gets its rights
// to whole mappings, of whatever size.
func TestShareLargerHandles(t *testing.T) {
	gpu := devicetest.NewRights(sim.New(sim.Config{}))
	base, err := gpu.Reserve(32 * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pool{runner: runner{dev: sleeper.New(gpu)}}
	at, before := base, gpu.Device.(*sim.Device).Used()
	for i, pages := range []mem.Bytes{1, 8, 2, 4} {
		h, size := engine.Index(i+1), pages*mem.HandleSize
		for _, op := range []engine.Op{
			{Kind: engine.OpCreate, Handle: h, Size: size},
			{Kind: engine.OpMap, Handle: h, Addr: at, Size: size},
			{Kind: engine.OpAccess, Addr: at, Size: size},
		} {
			if err := p.call(&op); err != nil {
				t.Fatal(err)
			}
		}
		if at += mem.Addr(size); i == 1 {
			at += mem.Addr(mem.HandleSize) // a page with nothing behind it
		}
	}
	if used := gpu.Device.(*sim.Device).Used() - before; used != 15*mem.HandleSize {
		t.Errorf("handles of 15 pages take %v", used)
	}
	unmap := engine.Op{Kind: engine.OpUnmap, Addr: base + mem.Addr(mem.HandleSize),
		Size: 8 * mem.HandleSize}
	if err := errors.Join(p.call(&unmap), p.Share(1)); err != nil {
		t.Fatal(err)
	}
	if len(gpu.May) != 7 {
		t.Errorf("%d pages are usable, expected 7", len(gpu.May))
	}
	for at, who := range gpu.May {
		if !slices.Equal(who, []int{1}) {
			t.Errorf("page %#x is usable by %v", uint64(at), who)
		}
	}
}
