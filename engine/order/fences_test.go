package order

import (
	"slices"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// polling asks about events as an Engine does.
type polling struct {
	fences
	asked, passed []driver.Fence
	done          map[driver.Fence]bool
	gone          driver.Fence // the driver cannot tell about it
}

// poll asks about so many at most; then is called with what has passed.
func (p *polling) poll(most int, then func(waiter)) {
	p.asked, p.passed = nil, nil
	over := p.fences.passed
	p.fences.passed = nil
	for held := 0; most > 0 && held < len(p.queues); most-- {
		x := p.ask()
		p.asked = append(p.asked, x)
		left, list := p.answer(x, p.done[x], x == p.gone)
		if !left {
			held++
		}
		over = append(over, list...)
		for _, w := range list {
			then(w)
		}
	}
	for _, w := range over {
		p.passed = append(p.passed, w.fence)
	}
}

// TestFences: only the oldest event of each stream is asked about, whatever passes is found, and
// what passing adds is kept. What waits for none is late until there is one, or until the device
// was waited for.
func TestFences(t *testing.T) {
	p := &polling{fences: fences{late: map[mem.StreamID][]waiter{}}, gone: 5,
		done: map[driver.Fence]bool{}}
	next := driver.Fence(0)
	add := func(id mem.StreamID, urgent bool) {
		next++
		p.add(id, waiter{fence: next, urgent: urgent})
		p.record(id, 0)
	}
	for i := range 30 {
		add(mem.StreamID(i%3), i%2 == 0) // stream 0: 1, 4, 7, ...
	}
	expect := func(what string, most int, asked, passed []driver.Fence, left, urgent, late int) {
		t.Helper()
		p.poll(most, func(w waiter) {
			if w.fence == 4 {
				add(9, false)
			}
		})
		if !slices.Equal(p.asked, asked) || !slices.Equal(p.passed, passed) || p.n != left ||
			p.urgent != urgent || p.lateN != late {
			t.Errorf("%s: asked %v, passed %v, %d left, %d urgent, %d late; want %v, %v, %d, %d, %d",
				what, p.asked, p.passed, p.n, p.urgent, p.lateN, asked, passed, left, urgent, late)
		}
	}
	type list = []driver.Fence
	expect("nothing has passed", all, list{1, 2, 3}, nil, 30, 15, 0)
	expect("two questions", 2, list{1, 2}, nil, 30, 15, 0)
	p.done[7], p.done[6] = true, true // of streams 0 and 2, but not the oldest
	expect("younger ones have passed", all, list{3, 1, 2}, nil, 30, 15, 0)
	p.done[1], p.done[2], p.done[4] = true, true, true
	// 5 cannot be asked about; 4 adds fence 31 on a fourth stream, for the next time.
	expect("the oldest have", all, list{3, 1, 4, 7, 10, 2, 5, 8, 3}, list{1, 4, 7, 2}, 26, 12, 1)
	p.add(1, waiter{fence: 100, urgent: true}) // 5 is of stream 1, too
	p.add(7, waiter{fence: 101, urgent: true}, waiter{fence: 102, urgent: true})
	if x := p.record(1, 0); x != 32 {
		t.Errorf("the event is number %d", x)
	}
	if n := p.missing(); n != 2 {
		t.Errorf("%d fences have no event, want 2", n)
	}
	p.unrecord(32)
	if p.lateN != 4 || p.n != 26 {
		t.Errorf("the driver has refused it: %d late, %d not", p.lateN, p.n)
	}
	p.record(1, 0)
	p.synced()
	expect("the device was waited for", 0, nil, list{101, 102}, 28, 14, 0)
	for x := range driver.Fence(201) {
		p.done[x] = true
	}
	if p.poll(all, func(waiter) {}); len(p.passed) != 28 || p.n != 0 || p.urgent != 0 ||
		len(p.queues) != 0 {
		t.Errorf("all have passed: %d of 28, %+v is left", len(p.passed), p.fences)
	}
	expect("there are none", all, nil, nil, 0, 0, 0)
}
