//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// usable makes, maps and writes memory of a device.
func usable(t *testing.T, d *Device) {
	t.Helper()
	if err := tour(d); err != nil {
		t.Errorf("memory cannot be used: %v", err)
	}
}

// TestRDMA: memory is made for RDMA where that works, and without it where the device says that it
// does and access then fails.
func TestRDMA(t *testing.T) {
	for setting, want := range map[string]bool{"0": false, "1": true, "2": false} {
		restart(t, map[string]string{"FAKECUDA_RDMA": setting})
		d := open(t)
		if got := d.c.prop.gpu_direct_rdma != 0; got != want {
			t.Errorf("FAKECUDA_RDMA=%s: memory is made for RDMA: %v, want %v", setting, got, want)
		}
		usable(t, d)
		if n := lib.Live("handles") + lib.Live("reservations"); n != 0 {
			t.Errorf("FAKECUDA_RDMA=%s: %d handles and reservations are left of trying", setting, n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRDMAIsTriedOnce makes each call of the trial fail: the device serves all the same, and
// nothing is left of it once memory goes back.
func TestRDMAIsTriedOnce(t *testing.T) {
	for _, call := range []string{"cuMemCreate", "cuMemAddressReserve", "cuMemMap",
		"cuMemSetAccess", "cuMemUnmap", "cuMemAddressFree", "cuMemRelease"} {
		restart(t, map[string]string{"FAKECUDA_RDMA": "1"})
		lib.Fail(call + ":1:999")
		d := open(t)
		if d.c.prop.gpu_direct_rdma != 0 {
			t.Errorf("%s failed at the trial, and memory is made for RDMA all the same", call)
		}
		usable(t, d)
		if n := lib.Live("handles") + lib.Live("mappings") + lib.Live("reservations"); n != 0 {
			t.Errorf("%s failed at the trial, and %d things are left of it", call, n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestShare: handles are made for other processes where the device can export them, and as before
// where it cannot.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		set    map[string]string
		fabric bool
		can    bool
	}{
		{map[string]string{}, false, true},
		{map[string]string{"FAKECUDA_FD": "0"}, false, false},
		{map[string]string{}, true, false},
		{map[string]string{"FAKECUDA_FABRIC": "1"}, true, true},
		{map[string]string{"FAKECUDA_FABRIC": "2"}, true, false}, // no daemon
	} {
		restart(t, c.set)
		d := open(t)
		err := d.Share(c.fabric)
		var failed *driver.Error
		if c.can && err != nil || !c.can && (!errors.As(err, &failed) || failed.Code != 801) {
			t.Errorf("%v, fabric %v: %v, want it to work: %v", c.set, c.fabric, err, c.can)
		}
		if exports := lib.Count("cuMemExportToShareableHandle"); c.can != (exports == 1) {
			t.Errorf("%v, fabric %v: %d handles were exported to see whether that works", c.set,
				c.fabric, exports)
		}
		usable(t, d)
		if h, err := d.Create(mem.HandleSize); err != nil {
			t.Error(err)
		} else if err := d.Release(h); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for _, kind := range []string{"handles", "mappings", "reservations"} {
			if n := lib.Live(kind); n != 0 {
				t.Errorf("%v, fabric %v: %d %s are left", c.set, c.fabric, n, kind)
			}
		}
	}
}

// TestExport: a handle has one file descriptor, open until it is released, if it was made for that.
func TestExport(t *testing.T) {
	restart(t, map[string]string{})
	d := open(t)
	create := func() driver.Handle {
		h, err := d.Create(mem.HandleSize)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	alone := create()
	if _, err := d.Export(alone); err == nil || !strings.Contains(err.Error(), "share:fd") {
		t.Errorf("a handle is exported that was not made for it: %v", err)
	}
	if err := d.Share(false); err != nil {
		t.Fatal(err)
	}
	h := create()
	lib.Fail("cuMemExportToShareableHandle:1:2")
	if _, err := d.Export(h); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("an export failed, and that is %v", err)
	}
	lib.Fail("")
	name, err := d.Export(h)
	again, _ := d.Export(h)
	isOpen := func() bool {
		_,
			err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", name.FD))
		return err == nil
	}
	if err != nil || again != name || !isOpen() {
		t.Errorf("it is exported as %v, then %v: %v", name, again, err)
	}
	if err := errors.Join(d.Release(h), d.Release(alone)); err != nil || isOpen() {
		t.Errorf("released, and its descriptor is open: %v", err)
	}
	if _, err := d.Export(h); err == nil {
		t.Error("a released handle is exported")
	}
	h = create()
	name, err = d.Export(h)
	if err := errors.Join(err, syscall.Close(name.FD), d.Release(h)); err != nil ||
		lib.Live("handles") != 0 {
		t.Errorf("the program has closed its descriptor, and it cannot be released: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestMapShared: what is exported, either way, is mapped at one more place, with its bytes, and
// lives as long as it is mapped; what names nothing is refused.
func TestMapShared(t *testing.T) {
	for _, fabric := range []bool{false, true} {
		restart(t, map[string]string{"FAKECUDA_FABRIC": "1"})
		d := open(t)
		must := func(what string, errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("fabric %v: %s: %v", fabric, what, err)
			}
		}
		must("share", d.Share(fabric))
		h, err := d.Create(2 * mem.HandleSize)
		must("create", err)
		name, err := d.Export(h)
		must("export", err)
		at, err := d.Reserve(4 * mem.HandleSize)
		there := at + mem.Addr(2*mem.HandleSize)
		must("map", err, d.Map(at, h), d.MapShared(there, name, 2*mem.HandleSize),
			d.Access(at, 4*mem.HandleSize))
		got, want := make([]byte, 4), []byte("seen")
		must("write", d.Write(at+mem.Addr(mem.HandleSize), want))
		must("unmap", d.Unmap(at, 2*mem.HandleSize), d.Release(h))
		must("read", d.Read(got, there+mem.Addr(mem.HandleSize)))
		if string(got) != string(want) {
			t.Errorf("fabric %v: %q is there, expected %q", fabric, got, want)
		}
		for _, wrong := range []driver.Shared{{FD: -1}, {FD: -1, Fabric: "short"}, {FD: 1 << 20},
			{FD: -1, Fabric: strings.Repeat("x", 64)}} {
			if err := d.MapShared(at, wrong, mem.HandleSize); err == nil {
				t.Errorf("%+v is mapped", wrong)
			}
		}
		must("end", d.Unmap(there, 2*mem.HandleSize), d.Unreserve(at, 4*mem.HandleSize), d.Close())
		if n := lib.Live("handles"); n != 0 {
			t.Errorf("fabric %v: %d handles are left", fabric, n)
		}
	}
}
