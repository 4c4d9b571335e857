package pool

import (
	"errors"
	"math"
	"slices"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestFences: only the oldest fence of each stream is asked about, whatever passes is
// found, and what passing adds is kept. What waits for none is late until there is one, or until
// the device has been waited for.
func TestFences(t *testing.T) {
	f := fences{late: map[mem.StreamID][]waiter{}}
	next := driver.Fence(0)
	add := func(id mem.StreamID, urgent bool) {
		next++
		f.add(id, waiter{engine: next, urgent: urgent})
		f.record(id, next, 0)
	}
	for i := range 30 {
		add(mem.StreamID(i%3), i%2 == 0) // stream 0: 1, 4, 7, ...
	}
	var asked, passed []driver.Fence
	done := map[driver.Fence]bool{}
	gone := errors.New("no such event")
	poll := func(most int) {
		asked, passed = nil, nil
		f.poll(most, func(x driver.Fence) (bool, error) {
			asked = append(asked, x)
			if x == 5 {
				return false, gone
			}
			return done[x], nil
		}, func(w waiter) {
			passed = append(passed, w.engine)
			if w.engine == 4 {
				add(9, false)
			}
		})
	}
	expect := func(what string, wantAsked, wantPassed []driver.Fence, left, urgent, late int) {
		t.Helper()
		if !slices.Equal(asked, wantAsked) || !slices.Equal(passed, wantPassed) || f.n != left ||
			f.urgent != urgent || f.lateAll != late {
			t.Errorf("%s: asked %v, passed %v, %d left, %d urgent, %d late; expected %v, %v, %d, %d, %d",
				what, asked, passed, f.n, f.urgent, f.lateAll, wantAsked, wantPassed, left, urgent, late)
		}
	}
	poll(math.MaxInt)
	expect("nothing has passed", []driver.Fence{1, 2, 3}, nil, 30, 15, 0)
	poll(2)
	expect("two questions", []driver.Fence{1, 2}, nil, 30, 15, 0)
	done[7], done[6] = true, true // of streams 0 and 2, but not the oldest
	poll(math.MaxInt)
	expect("younger ones have passed", []driver.Fence{3, 1, 2}, nil, 30, 15, 0)
	done[1], done[2], done[4] = true, true, true
	poll(math.MaxInt)
	// 5 cannot be asked about; 4 adds fence 31 on a fourth stream, for the next time.
	expect("the oldest have", []driver.Fence{3, 1, 4, 7, 10, 2, 5, 8, 3},
		[]driver.Fence{1, 4, 7, 2}, 26, 12, 1)
	f.add(1, waiter{engine: 100, urgent: true}) // 5 is of stream 1, too
	f.add(7, waiter{engine: 101}, waiter{engine: 102})
	f.record(1, 200, 0)
	poll(math.MaxInt)
	expect("one fence for all that is late", []driver.Fence{31, 10, 8, 3}, nil, 28, 14, 2)
	f.waited()
	poll(0)
	expect("the device has been waited for", nil, []driver.Fence{101, 102}, 28, 14, 0)
	for x := range driver.Fence(201) {
		done[x] = true
	}
	poll(math.MaxInt)
	if len(passed) != 28 || f.n != 0 || f.urgent != 0 || len(f.queues) != 0 {
		t.Errorf("all have passed: %d of 28, %+v is left", len(passed), f)
	}
	poll(math.MaxInt)
	expect("there are none", nil, nil, 0, 0, 0)
}

// TestMissing: the fence of a view's addresses is in no hurry, and nobody is told that it is
// missing.
func TestMissing(t *testing.T) {
	f := fences{late: map[mem.StreamID][]waiter{}}
	f.add(3, waiter{engine: 1}, waiter{engine: 2, urgent: true})
	f.add(4, waiter{engine: 3})
	if n := f.missing(); n != 1 {
		t.Errorf("%d fences are missing, want 1", n)
	}
}

// TestTrimHasFencesPolled: when memory is to go back to the driver, all that other streams
// are done with does.
func TestTrimHasFencesPolled(t *testing.T) {
	const blocks = 100
	k := newKit(t)
	for _, finished := range []bool{false, true} {
		var used []mem.Addr
		for range blocks {
			addr := k.malloc(0, 0, 2*mem.MiB)
			if err := k.Use(addr, 1); err != nil {
				t.Fatal(err)
			}
			used = append(used, addr)
		}
		for _, at := range used {
			k.release(at)
		}
		if finished {
			k.gpu.Finish(1)
		}
		if err := k.Trim(0); err != nil {
			t.Fatal(err)
		}
		if s := k.Stats(); finished != (s.Reserved == 0 && s.Pending == 0) {
			t.Errorf("finished %t: %v reserved, %v pending", finished, s.Reserved, s.Pending)
		}
		k.gpu.Finish(1)
	}
}
