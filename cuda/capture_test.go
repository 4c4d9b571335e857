//go:build cgo

package cuda

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestCaptureSurvives makes every call but Sync while a stream is captured into a graph:
// none may invalidate the capture, and recording on the captured stream is refused.
func TestCaptureSurvives(t *testing.T) {
	restart(t, nil)
	d := open(t)
	captured, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	lib.BeginCapture(uint64(captured))
	if err := captureTour(d); err != nil {
		t.Errorf("while a stream is captured: %v", err)
	}
	var failure *driver.Error
	if _, err := d.Record(captured); !errors.As(err, &failure) || failure.Code != 900 ||
		failure.Call != "cuEventRecord" {
		t.Errorf("Record on the captured stream: %v", err)
	}
	if !lib.EndCapture(uint64(captured)) {
		t.Error("the capture was invalidated")
	}
	if err := errors.Join(d.DropStream(captured), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestNoCallOutsideRelaxedMode: a call that cannot switch the thread to relaxed
// mode does not reach the driver, where it would break a capture.
func TestNoCallOutsideRelaxedMode(t *testing.T) {
	restart(t, nil)
	d := open(t)
	lib.BeginCapture(0)
	lib.Fail("cuThreadExchangeStreamCaptureMode:*:999")
	if _, _, err := d.Memory(); err == nil {
		t.Error("Memory went on without relaxed capture mode")
	}
	lib.Fail("")
	if !lib.EndCapture(0) {
		t.Error("the refused call has invalidated the capture")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestTwoDevices: the memory of two devices is apart, each call reaches its own,
// and peers may read what the other has mapped.
func TestTwoDevices(t *testing.T) {
	restart(t, map[string]string{"FAKECUDA_DEVICES": "2"})
	table, err := Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	var devices [2]*Device
	for i := range devices {
		if devices[i], err = table.Device(i); err != nil {
			t.Fatal(err)
		}
	}
	owner, peer := devices[0], devices[1]
	addr, err := owner.Reserve(mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	h, err := owner.Create(mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	free0, total, _ := owner.Memory()
	free1, _, _ := peer.Memory()
	if free0 != total-mem.HandleSize || free1 != total {
		t.Errorf("a handle of device 0 leaves %v and %v free of %v", free0, free1, total)
	}
	if err := errors.Join(owner.Map(addr, h), owner.Access(addr, mem.HandleSize),
		owner.Write(addr, []byte{7})); err != nil {
		t.Fatal(err)
	}
	got := []byte{0}
	if err := peer.Read(got, addr); err == nil {
		t.Error("a device reads another's memory without being its peer")
	}
	if err := errors.Join(owner.EnablePeers(1), owner.Access(addr, mem.HandleSize),
		peer.Read(got, addr)); err != nil || got[0] != 7 {
		t.Errorf("a peer reads %d, %v, want 7", got[0], err)
	}
	if err := owner.EnablePeers(make([]int, 17)...); err == nil {
		t.Error("17 peers are accepted")
	}
	if err := owner.EnablePeers(5); err == nil {
		t.Error("a device that does not exist is accepted as a peer")
	}
	if err := owner.EnablePeers(0); err == nil {
		t.Error("a device is accepted as its own peer")
	}
	if err := errors.Join(owner.Unmap(addr, mem.HandleSize), owner.Release(h),
		owner.Unreserve(addr, mem.HandleSize),
		owner.Close(), peer.Close()); err != nil {
		t.Error(err)
	}
}

// TestCaptureBeginsWhileAFenceIsRecorded: another thread may begin to capture a stream at any
// moment, also between the look whether it does and the record. Such a fence is refused, and is not
// asked about, which would end the capture.
func TestCaptureBeginsWhileAFenceIsRecorded(t *testing.T) {
	restart(t, nil)
	d := open(t)
	stream, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for !over.Load() {
				if f, err := d.Record(stream); err == nil {
					_, _ = d.Done(f)
				}
			}
		})
	}
	for n := range 20_000 {
		lib.BeginCapture(uint64(stream))
		runtime.Gosched()
		if !lib.EndCapture(uint64(stream)) {
			t.Errorf("capture %d was invalidated", n)
			break
		}
		runtime.Gosched()
	}
	over.Store(true)
	group.Wait()
	if err := errors.Join(d.DropStream(stream), d.Close()); err != nil {
		t.Error(err)
	}
}
