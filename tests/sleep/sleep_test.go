//go:build cgo

package sleep

import (
	"errors"
	"testing"

	"stalloc/actors"
	"stalloc/engine/gmlake"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// pause has pools sleep, nothing: all.
func (k *kit) pause(keep bool, pools ...uint64) {
	k.Helper()
	if err := k.Pause(pools, keep); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) resume(pools ...uint64) {
	k.Helper()
	if err := k.Resume(pools); err != nil {
		k.Fatal(err)
	}
}

// TestAllSleeps: no memory is left with the driver, and what wakes holds what it held.
func TestAllSleeps(t *testing.T) {
	k := newKit(t)
	k.program()
	before, load := k.Stats(), mem.Bytes(0)
	for _, content := range k.holds {
		load += mem.Round(mem.Bytes(len(content)))
	}
	k.pause(true)
	s := k.Stats()
	if n := lib.Live("pins"); mem.Bytes(n)*32*mem.MiB < load {
		t.Errorf("%v are kept with %d pins", load, n)
	}
	if k.taken() != 0 || lib.Live("handles") != 0 || lib.Live("mappings") != 0 ||
		lib.Live("reservations") != 1 {
		t.Errorf("%v of memory is taken, there are %d handles, %d mappings, %d reservations",
			k.taken(),
			lib.Live("handles"), lib.Live("mappings"), lib.Live("reservations"))
	}
	if s.Reserved != 0 || s.Asleep != before.Reserved || s.Backup != load || s.Load != before.Load {
		t.Errorf("asleep %+v, before %+v, and %v live", s.Stats, before.Stats, load)
	}
	k.resume()
	k.same("after waking")
	if s := k.Stats(); s.Reserved != before.Reserved || s.Asleep != 0 || s.Backup > load ||
		k.taken() != before.Reserved {
		t.Errorf("awake %+v, before %+v", s.Stats, before.Stats)
	}
	k.program()
	k.same("after more requests")
	k.end()
	if n := lib.Live("pins"); n != 0 {
		t.Errorf("memory of the host has %d pins", n)
	}
}

// TestRegionSleeps: the rest goes on meanwhile.
func TestRegionSleeps(t *testing.T) {
	k := newKit(t)
	k.program()
	before := k.taken()
	k.pause(true, k.weights)
	asleep := k.Stats().Asleep
	if asleep == 0 || k.taken() != before-asleep {
		t.Errorf("%v sleeps, and %v of %v is taken", asleep, k.taken(), before)
	}
	if _, err := k.MallocIn(1, k.weights, mem.MiB); !errors.Is(err, actors.ErrAsleep) {
		t.Errorf("a request of what sleeps: %v", err)
	}
	addr := k.malloc(0, 3*mem.MiB)
	k.free(addr)
	if err := k.Step(); err != nil {
		t.Error(err)
	}
	k.pause(true) // the rest
	if k.taken() != 0 {
		t.Errorf("%v is taken", k.taken())
	}
	k.resume(0)
	if _, err := k.MallocIn(1, 0, mem.MiB); err != nil {
		t.Error(err)
	}
	k.resume()
	k.same("after waking one after the other")
	k.end()
}

// TestDiscarded: nothing is copied, and all addresses are usable again.
func TestDiscarded(t *testing.T) {
	k := newKit(t)
	k.program()
	copies := lib.Count("cuMemcpyDtoH")
	k.pause(false)
	if s := k.Stats(); s.Backup != 0 || lib.Count("cuMemcpyDtoH") != copies || k.taken() != 0 {
		t.Errorf("%v is kept after %d copies", s.Backup, lib.Count("cuMemcpyDtoH")-copies)
	}
	k.resume()
	for addr, content := range k.holds {
		if err := k.gpu.Write(addr, content); err != nil {
			t.Fatal(err)
		}
	}
	k.same("written anew")
	k.end()
}

// TestFreesWhileAsleep: they are taken in, also of what other streams used, and what was freed is
// not copied back.
func TestFreesWhileAsleep(t *testing.T) {
	k := newKit(t)
	k.program()
	used, other := k.malloc(0, 5*mem.MiB), k.malloc(0, 5*mem.MiB)
	if err := errors.Join(k.Record(used, 7), k.Step()); err != nil {
		t.Fatal(err)
	}
	k.pause(true)
	if err := k.Record(other, 9); err != nil {
		t.Error(err)
	}
	if _, err := k.Malloc(1, 512); !errors.Is(err, actors.ErrAsleep) {
		t.Errorf("a request: %v", err)
	}
	writes := lib.Count("cuMemcpyHtoD")
	cut := lib.Live("pins") - 2 // blocks of which two pieces have parts
	for addr := range k.holds {
		if addr == used || addr == other || len(k.holds) > 6 {
			k.free(addr)
		}
	}
	if err := errors.Join(k.Step(), k.Trim(0)); err != nil {
		t.Error(err)
	}
	if s := k.Stats(); s.Pending != 0 || k.taken() != 0 {
		t.Errorf("%v waits for streams that have no work, %v is taken", s.Pending, k.taken())
	}
	k.resume()
	if n := lib.Count("cuMemcpyHtoD") - writes; n < len(k.holds) || n > len(k.holds)+cut {
		t.Errorf("%d blocks live, and %d were copied back", len(k.holds), n)
	}
	k.same("after waking")
	k.end()
}

// TestWaitsForBlocks: what waits for other streams is free before anything is copied.
func TestWaitsForBlocks(t *testing.T) {
	t.Setenv("FAKECUDA_EVENT_DELAY", "1000")
	k := newKit(t)
	addr := k.malloc(0, 5*mem.MiB)
	if err := errors.Join(k.Record(addr, 7), k.Release(addr)); err != nil {
		t.Fatal(err)
	}
	delete(k.holds, addr)
	if k.Stats().Pending == 0 {
		t.Fatal("the block does not wait")
	}
	k.pause(true)
	if s := k.Stats(); s.Pending != 0 || s.Backup != 0 {
		t.Errorf("%v waits and %v is kept of it", s.Pending, s.Backup)
	}
	k.resume()
	k.end()
}

// TestThousandCycles: nothing moves, and nothing comes to be between what is there.
func TestThousandCycles(t *testing.T) {
	t.Setenv("FAKECUDA_POISON", "0")
	k := newKit(t)
	k.small()
	before := k.Stats()
	for i := range 1000 {
		if i%10 == 0 {
			k.pause(true)
		} else {
			k.pause(false, k.weights)
		}
		k.resume()
		if i%10 == 0 {
			for addr, content := range k.holds { // the weights were discarded
				if err := k.gpu.Write(addr, content); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s := k.Stats()
	if s.Reserved != before.Reserved || s.LargestFree != before.LargestFree ||
		s.Engine.Views != before.Engine.Views || k.taken() != before.Reserved {
		t.Errorf("after 1,000 sleeps %+v, before %+v", s.Stats, before.Stats)
	}
	k.end()
}

// TestFullOnWaking: it sleeps on, and wakes when there is room.
func TestFullOnWaking(t *testing.T) {
	k := newKit(t)
	k.program()
	k.pause(true)
	h, err := k.gpu.Create(capacity - 8*mem.MiB) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := k.Resume(nil); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("a full device: %v", err)
		}
		if s := k.Stats(); s.Reserved != 0 || k.taken() != capacity-8*mem.MiB {
			t.Errorf("%v is reserved and %v taken of a device that was full", s.Reserved, k.taken())
		}
	}
	if err := k.gpu.Release(h); err != nil {
		t.Fatal(err)
	}
	k.resume()
	k.same("after waking")
	k.end()
}

// TestClosedAsleep: what sleeps is given up like everything.
func TestClosedAsleep(t *testing.T) {
	k := newKit(t)
	k.program()
	k.pause(true)
	k.end()
}

// TestRetiredAsleep: a device that serves no more can be woken, and wants no sleep.
func TestRetiredAsleep(t *testing.T) {
	k := newKit(t)
	k.program()
	k.pause(true)
	if err := k.Retire(); err != nil {
		t.Fatal(err)
	}
	k.resume()
	k.same("after waking")
	if err := k.Pause(nil, true); !errors.Is(err, actors.ErrRetired) {
		t.Errorf("sleep of a device that was closed: %v", err)
	}
	k.end()
}

// TestLakeSleeps: the memory of GMLake's algorithm, stitched blocks and regions of their own too,
// sleeps and wakes, whole or in part.
func TestLakeSleeps(t *testing.T) {
	lake := gmlake.DefaultConfig()
	k := newKitOf(t, actors.Options{GMLake: &lake}, true)
	k.program()
	shared := k.malloc(0, 7*mem.MiB)
	offset, handles, err := k.Export(shared)
	if err != nil || len(handles) == 0 || offset < 0 {
		t.Fatalf("%d handles, offset %v: %v", len(handles), offset, err)
	}
	k.pause(true)
	if s := k.Stats(); s.Reserved == 0 || s.Asleep == 0 {
		t.Errorf("%v are awake beside %v asleep, with an exported block", s.Reserved, s.Asleep)
	}
	k.resume()
	k.same("with an exported block")
	k.free(shared)
	before := k.Stats()
	for _, pools := range [][]uint64{nil, {k.weights}, {0}} {
		k.pause(true, pools...)
		taken := k.taken()
		if s := k.Stats(); s.Asleep == 0 || taken != before.Reserved-s.Asleep ||
			pools == nil && taken != 0 {
			t.Errorf("pools %v: %v asleep of %v, %v are taken", pools, s.Asleep, before.Reserved, taken)
		}
		k.resume(pools...)
		k.same("after pools %v woke", pools)
	}
	k.program()
	k.same("after more requests")
	k.end()
}
