package pool

import (
	"testing"

	"stalloc/actors/host"
	"stalloc/actors/region"
	"stalloc/internal/mem"
)

const (
	unit = 128 * mem.MiB // a batch
	// The stream of copies out.
	copies = mem.StreamID(1)<<48 + 1
)

// leaver is a pool with regions of four units each, all closed so that everything leaves.
type leaver struct {
	*kit
	t       *testing.T
	host    *captured
	regions []uint64
	blocks  [][]mem.Addr
}

func newLeaver(t *testing.T, regions int) *leaver {
	t.Helper()
	h := &captured{Model: host.NewModel()}
	k := &leaver{kit: newKitOn(t, h), t: t, host: h}
	for n := range regions {
		number, err := region.Number("test: leaves " + string(rune('a'+n)))
		if err != nil {
			t.Fatal(err)
		}
		blocks := make([]mem.Addr, 4)
		for i := range blocks {
			blocks[i] = k.malloc(0, number, unit)
		}
		k.regions, k.blocks = append(k.regions, number), append(k.blocks, blocks)
	}
	k.host.Lock() // as whoever calls does
	for _, number := range k.regions {
		if err := k.EndAwake(number, 0, Closing{Changed: true, All: true}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		k.host.captures = 0
		k.gpu.Finish(copies)
		k.host.Unlock()
	})
	return k
}

// copied fails unless so much has been copied out, or is, by what is away once that has ended.
func (k *leaver) copied(want mem.Bytes, when string) {
	k.t.Helper()
	k.gpu.Finish(copies)
	k.Settle()
	if away, _ := k.out(nil); away != want {
		k.t.Errorf("%s: %v are away, not %v", when, away, want)
	}
}

// TestOneBatchAtATime: of all that leaves, of whatever region, one batch is queued on the stream of
// the copies; the next when it is over. What is not copied yet stays where its region is opened.
func TestOneBatchAtATime(t *testing.T) {
	k := newLeaver(t, 2)
	for n := range 5 {
		for range 3 {
			k.Settle() // begins nothing while a batch is under way
		}
		k.copied(mem.Bytes(n+1)*unit, "one after the other")
	}
	if err := k.BeginAwake(k.regions[1], 0); err != nil {
		t.Fatal(err)
	}
	if away, leaving := k.out(nil); away != 4*unit || leaving != 0 {
		t.Errorf("%v are away, %v leave, though the second region is in use", away, leaving)
	}
	k.copied(4*unit, "in use")
	if err := k.EndAwake(k.regions[1], 0, Closing{Changed: true, All: true}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		k.copied(mem.Bytes(n+5)*unit, "closed again")
	}
}

// TestNothingIsCopiedWhileCapturing: what waits for its turn waits for the end of a capture, and no
// request waits for it.
func TestNothingIsCopiedWhileCapturing(t *testing.T) {
	k := newLeaver(t, 1)
	k.host.captures = 1
	for range 3 {
		k.copied(unit, "captured")
	}
	if got := k.awaitOut(nil, unit); got != 0 {
		t.Errorf("%v went to sleep", got)
	}
	k.host.captures = 0
	k.Settle()
	k.copied(2*unit, "after the capture")
}

// TestFreedBeforeItsTurn: handles that are released while their batch waits are not copied.
func TestFreedBeforeItsTurn(t *testing.T) {
	k := newLeaver(t, 1)
	k.host.Unlock()
	for _, at := range k.blocks[0][1:3] {
		k.release(at)
	}
	k.host.Lock()
	if err := k.Trim(k.regions[0]); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		k.gpu.Finish(copies)
		k.gpu.Finish(0)
		k.Settle()
	}
	if away, _ := k.out(nil); away != 2*unit || len(k.warned) > 0 {
		t.Errorf("%v are away, not %v; %v", away, 2*unit, k.warned)
	}
}

// TestForgottenBeforeItsTurn: a region without memory is forgotten, and what waited of it.
func TestForgottenBeforeItsTurn(t *testing.T) {
	k := newLeaver(t, 1)
	k.host.Unlock()
	for _, at := range k.blocks[0] {
		k.release(at)
	}
	k.host.Lock()
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	k.gpu.Finish(copies)
	if len(k.moved) > 0 || k.link.Turn() != nil {
		t.Errorf("%d regions are known; one's turn has come: %t", len(k.moved), k.link.Turn() != nil)
	}
}

// TestWhatIsOpenedSoonStays: a region that is to be opened no longer leaves, even if what is away
// of it finds no room.
func TestWhatIsOpenedSoonStays(t *testing.T) {
	k := newLeaver(t, 1)
	k.copied(unit, "closed")
	k.host.Unlock()
	most := k.malloc(0, 0, 8*mem.GiB-3*unit)
	k.host.Lock()
	over := make(chan bool, 1)
	go func() {
		for len(over) == 0 {
			k.gpu.Finish(0)
		}
	}()
	if err := k.BeginAwake(k.regions[0], 0); err == nil {
		t.Error("it is open, and there is no room")
	}
	for range 2 { // what was under way has left
		k.copied(2*unit, "to be opened")
	}
	if k.Settle() {
		t.Error("something leaves that stays")
	}
	k.host.Unlock()
	k.release(most)
	k.host.Lock()
	if err := k.BeginAwake(k.regions[0], 0); err != nil {
		t.Error(err)
	}
	over <- true
}
