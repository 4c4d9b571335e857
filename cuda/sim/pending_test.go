package sim_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestPendingAgainstModel makes random uses, fences and unmappings and compares
// each answer with a list of all uses that are still pending, searched whole.
func TestPendingAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(50) {
		pendingRound(t, seed+i)
	}
}

type pendingUse struct {
	stream mem.StreamID
	number int // place among all events, of any stream
	addr   mem.Addr
	size   mem.Bytes
}

type pendingFence struct {
	fence  driver.Fence
	stream mem.StreamID
	number int
}

func pendingRound(t *testing.T, seed uint64) {
	const pages, streams = 6, 3
	random := rand.New(rand.NewPCG(seed, 3))
	d, base := ready(t, sim.Config{Manual: seed%2 == 0}, pages)
	handle, err := d.Create(mem.HandleSize) // what is mapped again where a page was unmapped
	must(t, err)

	var uses []pendingUse
	var fences []pendingFence
	finish := func(stream mem.StreamID, upTo int) {
		var left []pendingUse
		for _, u := range uses {
			if u.stream != stream || u.number > upTo {
				left = append(left, u)
			}
		}
		uses = left
	}
	for number := range 400 {
		stream := mem.StreamID(random.IntN(streams))
		switch random.IntN(6) {
		case 0, 1:
			addr := base + mem.Addr(random.Int64N(int64(pages*page)))
			size := 1 + mem.Bytes(random.Int64N(int64(base)+int64(pages*page)-int64(addr)))
			must(t, d.Use(stream, addr, size))
			uses = append(uses, pendingUse{stream, number, addr, size})
		case 2:
			f, err := d.Record(stream)
			must(t, err)
			fences = append(fences, pendingFence{f, stream, number})
		case 3:
			if len(fences) == 0 {
				continue
			}
			i := random.IntN(len(fences))
			done, err := d.Done(fences[i].fence)
			must(t, err)
			if done {
				finish(fences[i].stream, fences[i].number)
				fences = slices.Delete(fences, i, i+1)
			}
		case 4:
			if random.IntN(2) == 0 {
				d.Finish(stream)
				finish(stream, number)
				break
			}
			must(t, d.Sync())
			uses = nil
		case 5:
			unmapPending(t, seed, d, base+mem.Addr(random.IntN(pages))*mem.Addr(page), handle, uses)
		}
		if err := d.Check(); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, number, err)
		}
	}
}

// unmapPending unmaps a page, which must be refused exactly if a pending use
// touches it, and maps it again.
func unmapPending(t *testing.T, seed uint64, d *sim.Device, at mem.Addr, handle driver.Handle,
	uses []pendingUse) {
	t.Helper()
	want := 0
	for _, u := range uses {
		if u.addr < at+mem.Addr(page) && at < u.addr+mem.Addr(u.size) {
			want = 700
		}
	}
	got := 0
	var failure *driver.Error
	if err := d.Unmap(at, page); errors.As(err, &failure) {
		got = failure.Code
	}
	if got != want {
		t.Fatalf("seed %d: Unmap at %#x gave code %d, want %d", seed, uint64(at), got, want)
	}
	if got == 0 {
		must(t, errors.Join(d.Map(at, handle), d.Access(at, page)))
	}
}
