package pool

import (
	"errors"
	"slices"
	"testing"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/engine"
	"stalloc/internal/mem"
)

// rights is a device that keeps book of who may use which page.
type rights struct {
	device.Device
	peers []int
	may   map[mem.Addr][]int // by page: who, without the owner
}

func (d *rights) EnablePeers(ordinals ...int) error {
	d.peers = slices.Clone(ordinals)
	return nil
}

func (d *rights) Access(addr mem.Addr, size mem.Bytes) error {
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		d.may[at] = slices.Clone(d.peers)
	}
	return d.Device.Access(addr, size)
}

func (d *rights) Unmap(addr mem.Addr, size mem.Bytes) error {
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		delete(d.may, at)
	}
	return d.Device.Unmap(addr, size)
}

// TestShareLargerHandles: the runner passes a handle's size on, and a peer gets its rights
// to whole mappings, of whatever size.
func TestShareLargerHandles(t *testing.T) {
	gpu := &rights{Device: sim.New(sim.Config{}), may: map[mem.Addr][]int{}}
	base, err := gpu.Reserve(32 * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pool{runner: newRunner(gpu)}
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
	if len(gpu.may) != 7 {
		t.Errorf("%d pages are usable, expected 7", len(gpu.may))
	}
	for at, who := range gpu.may {
		if !slices.Equal(who, []int{1}) {
			t.Errorf("page %#x is usable by %v", uint64(at), who)
		}
	}
}
