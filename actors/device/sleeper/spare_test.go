package sleeper_test

import (
	"errors"
	"slices"
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// borrow has the first handle rest, and another that is mapped at page 12 have its memory.
func (k *kit) borrow() driver.Handle {
	k.Helper()
	k.Rest(k.handles[0])
	h, err := k.Create(page)
	if err != nil {
		k.Fatal(err)
	}
	k.put(k.at(12), h, page)
	k.taken(4*page, 0, page)
	return h
}

// taken fails unless the driver has given so much, of which so much is spare and so much rests.
func (k *kit) taken(used, spare, resting mem.Bytes) {
	k.Helper()
	if k.gpu.Used() != used || k.Spare() != spare || k.Resting() != resting {
		k.Errorf("%v taken, %v spare, %v resting; want %v, %v, %v", k.gpu.Used(), k.Spare(),
			k.Resting(), used, spare, resting)
	}
}

func (k *kit) giveBack(h driver.Handle) {
	k.Helper()
	k.Keep(true)
	if err := errors.Join(k.Unmap(k.at(12), page), k.Release(h)); err != nil {
		k.Fatal(err)
	}
	k.Keep(false)
}

// TestRests: a handle rests while another has its memory, and rises without a call of the driver
// when that gives it up.
func TestRests(t *testing.T) {
	k := newKit(t)
	h := k.borrow()
	if risen := k.Risen(); len(risen) > 0 {
		t.Errorf("%v have risen whose memory another has", risen)
	}
	k.giveBack(h)
	if risen := k.Risen(); !slices.Equal(risen, k.handles[:1]) || len(k.Risen()) > 0 {
		t.Errorf("%v have risen, want the first handle, once", risen)
	}
	k.taken(4*page, 0, 0)
	k.awake("it has risen")
	k.end()
}

// TestRisesWhole: a handle does not rise while one of its places is not mapped, since a call of the
// driver has failed. It has memory again when some is spare.
func TestRisesWhole(t *testing.T) {
	k := newKit(t)
	h := k.borrow()
	if err := k.Unmap(k.at(12), page); err != nil {
		t.Fatal(err)
	}
	k.fault.Set(devicetest.Rule{Kind: devicetest.CallUnmap, Nth: 2, Code: 2})
	if err := k.Release(h); err == nil {
		t.Fatal("the second place was not to be unmapped")
	}
	k.fault.Set()
	k.put(k.at(12), h, page)
	k.giveBack(h)
	if risen := k.Risen(); len(risen) > 0 {
		t.Errorf("%v have risen, and are not mapped", risen)
	}
	if err := k.Raise(true); err != nil || !slices.Equal(k.Risen(), k.handles[:1]) {
		t.Errorf("it does not rise: %v", err)
	}
	k.awake("it has risen")
	k.end()
}

// TestAllRisesThatCan: spare memory serves all handles that rest, even if sizes differ, and even if
// others have the memory that they rest on.
func TestAllRisesThatCan(t *testing.T) {
	k := newKit(t)
	k.Rest(k.handles[0])
	calls := k.gpu.Stats()
	if err := k.Raise(true); err != nil || !slices.Equal(k.Risen(), k.handles[:1]) ||
		k.gpu.Stats() != calls {
		t.Errorf("the driver is called for what rests on spare memory: %v", err)
	}
	k.Rest(k.handles[0])
	k.Rest(k.handles[2])
	h, err := k.Create(2 * page)
	if err != nil {
		t.Fatal(err)
	}
	k.Keep(true)
	if err := errors.Join(k.Release(h), k.Raise(true)); err != nil {
		t.Error(err)
	}
	if risen := k.Risen(); len(risen) != 2 {
		t.Errorf("%v have risen, there is memory for two", risen)
	}
	k.taken(4*page, 0, 0)
	k.Keep(false)
	h = k.borrow()
	k.Keep(true)
	asleep, err := k.Sleep(k.handles[2:])
	if err = errors.Join(err, k.Raise(false)); !asleep || err != nil {
		t.Errorf("another sleeps: %v, %v", asleep, err)
	}
	if risen := k.Risen(); len(risen) > 0 {
		t.Errorf("%v have risen, and their memory may come back", risen)
	}
	if err := k.Raise(true); err != nil {
		t.Error(err)
	}
	if risen := k.Risen(); !slices.Equal(risen, k.handles[:1]) {
		t.Errorf("%v have risen, want the first handle", risen)
	}
	k.taken(4*page, 0, 0)
	k.giveBack(h)
	if err := k.Wake(k.handles); err != nil {
		t.Fatal(err)
	}
	k.awake("they have risen")
	k.end()
}

// TestSpareIsNeverBesideNew: what needs memory of another size gives as much of what is spare back
// first, and what rested there sleeps.
func TestSpareIsNeverBesideNew(t *testing.T) {
	k := newKit(t)
	k.Rest(k.handles[0])
	k.taken(4*page, page, page)
	h, err := k.Create(2 * page)
	if err != nil {
		t.Fatal(err)
	}
	k.taken(5*page, 0, page)
	if _, mapped := k.Mapped()[k.at(8)]; mapped {
		t.Error("a place is mapped whose memory went back")
	}
	if err := k.Release(h); err != nil {
		t.Fatal(err)
	}
	k.wake()
	k.taken(4*page, 0, 0)
	k.awake("it rested without memory, and was woken")
	k.end()
}

// TestExportedMemoryIsNobodyElses: another process may have it, so it rises at once.
func TestExportedMemoryIsNobodyElses(t *testing.T) {
	d, base, h := lone(t)
	if _, _, err := d.Export(base, page); err != nil {
		t.Fatal(err)
	}
	d.Unexport(base, page)
	d.Rest(h)
	if d.Resting() > 0 || d.Spare() > 0 || !slices.Equal(d.Risen(), []driver.Handle{h}) {
		t.Error("exported memory rests")
	}
	d.Keep(true)
	if asleep, err := d.Sleep([]driver.Handle{h}); !asleep || err != nil || d.Spare() > 0 {
		t.Errorf("exported memory is spare: asleep %v, %v, %v", asleep, err, d.Spare())
	}
}

// TestEveryCallOfDropSpareFails: what is spare is given back in the end, and once.
func TestEveryCallOfDropSpareFails(t *testing.T) {
	everyCallFails(t, 2, func(k *kit, n int, rules []devicetest.Rule) int {
		k.Rest(k.handles[0])
		k.fault.Set(rules...)
		err := k.DropSpare()
		injected := k.fault.Injected()
		k.fault.Set()
		if (err != nil) != (injected > 0) {
			t.Errorf("call %d, %d failed: %v", n, injected, err)
		}
		if err = k.DropSpare(); err != nil {
			t.Error(err)
		}
		k.taken(3*page, 0, page)
		return injected
	})
}

// TestUsable: nothing is copied at a place that a failed call has left without access.
func TestUsable(t *testing.T) {
	k := newKit(t)
	h := k.handles[0]
	first, _, _ := k.Place(h)
	again, err := k.Create(page)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Map(k.at(13), again); err != nil {
		t.Fatal(err)
	}
	if at, usable := k.Usable(again); usable {
		t.Errorf("%#x is mapped without access", uint64(at))
	}
	k.put(k.at(14), again, page)
	if at, usable := k.Usable(again); !usable || at != k.at(14) {
		t.Errorf("%#x, %t: page 14 can be used", uint64(at), usable)
	}
	if at, usable := k.Usable(h); !usable || at != first {
		t.Errorf("%#x, %t: %#x can be used", uint64(at), usable, uint64(first))
	}
}
