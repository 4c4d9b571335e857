package order

import (
	"slices"
	"testing"

	"stalloc/engine"
)

// behind is a rule that has seen marks take so long, in a step like the last one, of 100 ms.
func behind(lag engine.Nanos) rule {
	return rule{lag: lag, began: 1000 * millisecond, took: 100 * millisecond}
}

// TestMayWait: a request waits for what was queued long enough ago, while the device comes on, and
// no longer than leaves a reserve.
func TestMayWait(t *testing.T) {
	const lag, now = 40 * millisecond, 1100 * millisecond
	for name, c := range map[string]struct {
		rule   rule
		wait   wait
		oldest engine.Nanos
		lent   bool
		want   bool
	}{
		"old enough": {rule: behind(lag), oldest: now - 20*millisecond, want: true},
		"too young":  {rule: behind(lag), oldest: now - 5*millisecond},
		"lent":       {rule: behind(lag), oldest: now - 5*millisecond, lent: true, want: true},
		"unknown lag": {rule: rule{began: 1000 * millisecond, took: 100 * millisecond},
			oldest: now},
		"rests": {rule: rule{lag: lag, backoff: 1}, oldest: now - 20*millisecond},
		"goes on": {rule: behind(lag), wait: wait{waited: true, from: now - 10*millisecond,
			until: now + millisecond, oldest: now - 30*millisecond}, oldest: now - 30*millisecond,
			want: true},
		"stands still": {rule: behind(lag), wait: wait{waited: true, from: now - 45*millisecond,
			until: now - 5*millisecond, oldest: now - 60*millisecond},
			oldest: now - 60*millisecond},
		"comes on": {rule: behind(lag), wait: wait{waited: true, from: now - 45*millisecond,
			until: now - 5*millisecond, oldest: now - 80*millisecond}, oldest: now - 60*millisecond,
			want: true},
		"all of a step": {rule: behind(lag), wait: wait{waited: true, from: now - 100*millisecond,
			until: now + lag, oldest: now - 120*millisecond}, oldest: now - 120*millisecond},
		"spent": {rule: rule{lag: lag, began: 1000 * millisecond, took: 100 * millisecond,
			spent: 100 * millisecond}, oldest: now - 20*millisecond},
	} {
		if got := c.rule.mayWait(&c.wait, now, c.oldest, c.lent); got != c.want {
			t.Errorf("%s: may wait: %v", name, got)
		}
	}
}

// TestWaitsRest: once more than a step was wasted waits rest for ever more steps, and one
// good step ends that.
func TestWaitsRest(t *testing.T) {
	r, now := rule{}, engine.Nanos(0)
	step := func(wasted engine.Nanos) {
		w := wait{waited: true, stalled: true, from: now}
		now += wasted
		r.waited(&w, now, wasted > 0)
		now += 100*millisecond - wasted
		r.endStep(now)
	}
	rest := func() (n int) {
		for ; r.backoff > 0; n++ {
			now += 100 * millisecond
			r.endStep(now)
		}
		return n
	}
	for range 1000 {
		if step(millisecond); r.backoff > 0 {
			t.Fatal("waits rest after a hundredth of each step was wasted")
		}
	}
	var rests []int
	for range 9 {
		step(60 * millisecond)
		rests = append(rests, rest())
	}
	want := []int{0, 4, 16, 64, 0, 256, 0, 512, 0}
	if !slices.Equal(rests, want) {
		t.Fatalf("waits rest for %v steps, want %v", rests, want)
	}
	if r.counts.Wasted != 1009 || r.counts.Time != 1540*millisecond {
		t.Errorf("counted %+v", r.counts)
	}
	w := wait{waited: true, from: now}
	now += 2 * millisecond
	r.waited(&w, now, false)
	now += 100 * millisecond
	if r.endStep(now); r.failed != 0 || r.backoff != 0 {
		t.Errorf("after a wait that was worth it: %+v", r)
	}
}

// TestMayBorrow: asking costs a poll each; all of a step take a hundredth of one at most.
func TestMayBorrow(t *testing.T) {
	r := behind(0)
	const now = 1100 * millisecond
	for range 5 { // of 200 us in 100 ms
		if !r.mayBorrow(now) {
			t.Fatalf("after %d streams", r.borrowed)
		}
		r.borrowed++
	}
	if r.borrowed++; r.mayBorrow(now) {
		t.Errorf("after %d streams", r.borrowed)
	}
	if r = (rule{backoff: 1}); r.mayBorrow(now) {
		t.Error("while waits rest")
	}
}

// TestMarks: one is due each millisecond, or a 16th of the lag if that is longer.
func TestMarks(t *testing.T) {
	r := rule{marked: 5 * millisecond}
	if r.marks(5*millisecond+leastMark-1) || !r.marks(5*millisecond+leastMark) {
		t.Error("at the least interval")
	}
	r.lag = 160 * millisecond
	if r.marks(14*millisecond) || !r.marks(15*millisecond) {
		t.Error("at a 16th of the lag")
	}
}
