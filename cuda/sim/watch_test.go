package sim

import (
	"errors"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// watching is a device with four pages of addresses, of which the first two map handles 0
// and 1 and the last two the same in turn.
type watching struct {
	*Watch
	t       *testing.T
	base    mem.Addr
	handles []driver.Handle
}

func newWatching(t *testing.T) *watching {
	t.Helper()
	device := New(Config{Manual: true})
	base, err := device.Reserve(4 * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{NewWatch(device), t, base, nil}
	for range 3 {
		h, err := device.Create(mem.HandleSize)
		if err != nil {
			t.Fatal(err)
		}
		w.handles = append(w.handles, h)
	}
	for page, handle := range []int{0, 1, 1, 0} {
		w.mapPage(page, handle)
	}
	return w
}

func (w *watching) at(page int, offset mem.Bytes) mem.Addr {
	return w.base + mem.Addr(page)*mem.Addr(mem.HandleSize) + mem.Addr(offset)
}

func (w *watching) mapPage(page, handle int) {
	w.t.Helper()
	if err := w.device.Map(w.at(page, 0), w.handles[handle]); err != nil {
		w.t.Fatal(err)
	}
	if err := w.device.Access(w.at(page, 0), mem.HandleSize); err != nil {
		w.t.Fatal(err)
	}
}

// begins follows a block on stream 0, which is wrong in the given words.
func (w *watching) begins(page int, offset, size mem.Bytes, wrong string) *Watched {
	w.t.Helper()
	b, err := w.Begin(w.at(page, offset), size, 0)
	w.says(err, wrong)
	return b
}

func (w *watching) says(err error, wrong string) {
	w.t.Helper()
	if wrong == "" && err != nil || wrong != "" &&
		(err == nil || !strings.Contains(err.Error(), wrong)) {
		w.t.Errorf("got %v, expected %q", err, wrong)
	}
}

const shares = "shares memory with"

// TestWatchFindsTwoBlocksInOneByte, through the same address and through another.
func TestWatchFindsTwoBlocksInOneByte(t *testing.T) {
	w := newWatching(t)
	first := w.begins(0, mem.MiB, 2*mem.MiB, "") // the end of handle 0, the beginning of handle 1
	w.begins(3, 0, mem.MiB, "").End()
	w.begins(2, mem.MiB, mem.MiB, "").End()
	w.begins(3, mem.MiB-mem.Grain, 2*mem.Grain, shares).End()
	w.begins(2, 0, mem.Grain, shares).End()
	w.begins(0, mem.MiB, mem.Grain, shares).End()
	w.says(first.Freed(), "")
	w.begins(2, 0, mem.HandleSize, "").End()
}

// TestWatchFindsOtherMemory: a block whose second page is mapped to another handle.
func TestWatchFindsOtherMemory(t *testing.T) {
	w := newWatching(t)
	b := w.begins(0, 0, 3*mem.MiB, "")
	w.device.Finish(0)
	if err := w.device.Unmap(w.at(1, 0), mem.HandleSize); err != nil {
		t.Fatal(err)
	}
	w.mapPage(1, 2)
	w.says(b.Freed(), "has other memory")
}

// TestWatchKnowsOtherStreams: a freed block is in use until they have passed its free.
func TestWatchKnowsOtherStreams(t *testing.T) {
	w := newWatching(t)
	b := w.begins(0, 0, mem.MiB, "")
	w.says(b.Freed(5, 6), "")
	w.device.Finish(0)
	w.device.Finish(5)
	w.begins(3, 0, mem.MiB, shares).End()
	w.begins(0, 0, mem.Grain, shares).End()
	w.device.Finish(6)
	w.begins(3, 0, mem.MiB, "").End()
}

// TestWatchQueuesWork: what a block's streams may still use cannot be unmapped.
func TestWatchQueuesWork(t *testing.T) {
	w := newWatching(t)
	b := w.begins(0, 0, mem.MiB, "")
	w.device.Finish(0)
	w.says(b.Freed(5), "")
	b.End()
	for _, stream := range []mem.StreamID{0, 5} {
		if err := w.device.Unmap(w.at(0, 0), mem.HandleSize); err == nil {
			t.Errorf("unmapped under work of stream %d", stream)
		}
		w.device.Finish(stream)
	}
	if err := w.device.Unmap(w.at(0, 0), mem.HandleSize); err != nil {
		t.Error(err)
	}
}

// TestWatchKnowsPartsOfHandles: two blocks in one larger handle share memory only where
// they are in the same part of it, whichever address shows it.
func TestWatchKnowsPartsOfHandles(t *testing.T) {
	device := New(Config{Manual: true})
	base, err := device.Reserve(6 * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	h, err := device.Create(3 * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{NewWatch(device), t, base, []driver.Handle{h}}
	for _, page := range []int{0, 3} {
		if err := errors.Join(device.Map(w.at(page, 0), h),
			device.Access(w.at(page, 0), 3*mem.HandleSize)); err != nil {
			t.Fatal(err)
		}
	}
	first := w.begins(1, 0, mem.HandleSize+mem.MiB, "") // until the middle of the third page
	w.begins(3, 0, mem.HandleSize, "").End()
	w.begins(5, mem.MiB, mem.MiB, "").End()
	w.begins(4, mem.MiB, mem.Grain, shares).End()
	w.begins(5, 0, mem.Grain, shares).End()
	w.says(first.Freed(), "")
}

// TestUses: without following blocks, the work that uses them is queued all the same.
func TestUses(t *testing.T) {
	w := newWatching(t)
	w.Watch = NewUses(w.device)
	b := w.begins(0, 0, mem.MiB, "")
	w.begins(3, 0, mem.MiB, "")
	if err := w.device.Unmap(w.at(0, 0), mem.HandleSize); err == nil {
		t.Error("what queued work uses is unmapped")
	}
	before := w.device.Place(5)
	w.says(b.Freed(5), "")
	if w.device.Place(5) == before {
		t.Error("a free queues nothing on the other stream")
	}
	b.End()
}
