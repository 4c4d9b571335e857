package actors

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/host"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// bookend requests two blocks and frees them, n times: four events each. It returns how
// many requests a plan served.
func (l *looper) bookend(n int) (hits int) {
	l.t.Helper()
	for range n {
		a, err := l.local.Malloc(0, mem.KiB)
		b, also := l.local.Malloc(0, 3*mem.KiB)
		if err = errors.Join(err, also, l.local.Release(b), l.local.Release(a)); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := l.local.Step(); err != nil {
		l.t.Fatal(err)
	}
	was := l.hits
	l.hits = l.local.Stats().Hits
	return int(l.hits - was)
}

// TestStepsOfTooManyEvents: what does not fit is counted, and said once. The steps to
// come are planned as if nothing had happened.
func TestStepsOfTooManyEvents(t *testing.T) {
	l := newLooper(t)
	const quarter = 1 << 18 // of a million bookends
	l.bookend(quarter)
	if n := l.local.LostEvents(); n != 0 {
		t.Errorf("%d of 2^20 events were lost", n)
	}
	l = newLooper(t)
	if err := l.local.Step(); err != nil { // from here on the program marks its steps
		t.Fatal(err)
	}
	for range 2 {
		l.bookend(quarter + 25)
	}
	if n := l.local.LostEvents(); n != 200 {
		t.Errorf("%d events were lost, expected 200", n)
	}
	if n := l.logged("a step is not planned: it has more requests and frees than are observed of one; mark steps more often"); n != 1 {
		t.Errorf("said %d times", n)
	}
	sizes := wild(seeded(t), 100)
	for range 4 {
		l.step(sizes)
	}
	if hits := l.step(sizes); hits != len(sizes) {
		t.Errorf("%d hits after steps of too many events", hits)
	}
}

// holding is a host that stops the planner where it makes its first schedule.
type holding struct {
	*host.Model
	first         sync.Once
	stopped, goOn chan bool
}

func (h *holding) Build(entries []schedule.Entry) *host.Schedule {
	h.first.Do(func() {
		h.stopped <- true
		<-h.goOn
	})
	return h.Model.Build(entries)
}

// TestStepsFasterThanThePlanner: what waits for the planner is bounded, and when it
// has looked at that it sees the newest steps.
func TestStepsFasterThanThePlanner(t *testing.T) {
	h := &holding{Model: host.NewModel(), stopped: make(chan bool), goOn: make(chan bool)}
	logs, log := observer.New(zap.WarnLevel)
	d, err := Open(sim.New(sim.Config{}), h, Options{Log: zap.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	local := NewLocal(d, h.Model)
	t.Cleanup(func() { local.Close() })
	l := &looper{t: t, local: local}
	l.bookend(2)
	l.bookend(2) // is planned
	<-h.stopped
	before := heap()
	for range 1000 {
		l.bookend(500)
	}
	if grown := int64(heap()-before) >> 20; grown > 48 {
		t.Errorf("%d MiB of the host's memory wait for the planner", grown)
	}
	if n := log.FilterMessageSnippet("some are not").Len(); n != 1 || l.local.LostEvents() == 0 {
		t.Errorf("said %d times that events were dropped, and %d were", n, l.local.LostEvents())
	}
	close(h.goOn)
	for range 10000 {
		if l.bookend(500) == 1000 {
			return
		}
		runtime.Gosched()
	}
	t.Error("no plan served the newest steps")
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
