package actors

import (
	"errors"
	"runtime"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
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
		t.Errorf("%d hits behind steps of too many events", hits)
	}
}

// TestStepsFasterThanThePlanner: what waits for the planner is bounded, and when it
// looks again it sees the newest steps.
func TestStepsFasterThanThePlanner(t *testing.T) {
	const planned = "planned" // said by the planner on its own goroutine
	stopped, goOn := make(chan bool), make(chan bool)
	first := true
	log := zap.New(zapcore.NewNopCore()).WithOptions(zap.WrapCore(func(zapcore.Core) zapcore.Core {
		return hook{zapcore.NewNopCore(), func(message string) {
			if message == planned && first {
				first = false
				stopped <- true
				<-goOn
			}
		}}
	}))
	local, err := OpenLocal(sim.New(sim.Config{}), Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	l := &looper{t: t, local: local}
	l.bookend(2) // the first step is planned
	<-stopped
	before := heap()
	for range 1000 {
		l.bookend(500)
	}
	if grown := int64(heap()-before) >> 20; grown > 48 {
		t.Errorf("%d MiB of the host's memory wait for the planner", grown)
	}
	close(goOn)
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

// hook is a log that is listened to.
type hook struct {
	zapcore.Core
	f func(message string)
}

func (h hook) Enabled(zapcore.Level) bool { return true }

func (h hook) With([]zapcore.Field) zapcore.Core { return h }

func (h hook) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, h)
}

func (h hook) Write(e zapcore.Entry, _ []zapcore.Field) error {
	h.f(e.Message)
	return nil
}
