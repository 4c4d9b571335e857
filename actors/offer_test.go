package actors

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// slowAccess takes its time, as a busy device does.
type slowAccess struct{ device.Device }

func (s slowAccess) Access(addr mem.Addr, size mem.Bytes) error {
	time.Sleep(2 * time.Millisecond)
	return s.Device.Access(addr, size)
}

// TestPlanIsOfferedOnce: a plan whose arena takes many boundaries to be mapped ahead is
// not made and offered again meanwhile.
func TestPlanIsOfferedOnce(t *testing.T) {
	logs, log := observer.New(zap.InfoLevel)
	l, err := OpenLocal(device.NewOwner(slowAccess{sim.New(sim.Config{Capacity: 8 * mem.GiB})}), Options{Log: zap.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	step := func() {
		var addrs []mem.Addr
		for i := range 4 {
			addr, err := l.Malloc(0, mem.GiB+mem.Bytes(i)*mem.MiB)
			if err != nil {
				t.Fatal(err)
			}
			addrs = append(addrs, addr)
		}
		for _, addr := range addrs {
			if err := l.Release(addr); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Step(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); l.Stats().Generation == 0; step() {
		if time.Now().After(end) {
			t.Fatalf("no plan was served: %+v", l.Stats())
		}
		time.Sleep(time.Millisecond) // planner and mapping have their own goroutines
	}
	if n := log.FilterMessage("a plan is offered").Len(); n != 1 {
		t.Errorf("a plan was offered %d times before it served", n)
	}
}

// TestOutOfMemoryNamesTheLimit only where there is one.
func TestOutOfMemoryNamesTheLimit(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	if _, err := k.Malloc(0, 9*mem.GiB); err == nil || strings.Contains(err.Error(), "limit") {
		t.Errorf("no limit is set: %v", err)
	}
	if err := k.Limit(0.5); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Malloc(0, 5*mem.GiB); err == nil || !strings.Contains(err.Error(), "limit is reached: 4.00 GiB") {
		t.Errorf("a limit of 4 GiB is set: %v", err)
	}
}

// TestServingAgainTakesLittle: after a lost step the plan is served again without being
// laid out again: the boundary allocates hardly more than the tape's own arrays.
func TestServingAgainTakesLittle(t *testing.T) {
	const slots = 4000
	k := newKit(t, Options{})
	sizes := make([]mem.Bytes, slots)
	for i := range sizes {
		sizes[i] = mem.Bytes(8+i%57) * mem.KiB
	}
	k.learn(sizes...)
	for range lostAfter { // of no planned size, and of 64 MiB together
		k.play(3*mem.MiB + 512)
	}
	if s := k.Stats(); s.Arenas != 0 {
		t.Fatalf("%v are in arenas", s.Arenas)
	}
	k.gpu.Finish(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := k.Step()
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if s := k.Stats(); s.Arenas == 0 {
		t.Fatal("the plan does not serve again")
	}
	if n := (after.TotalAlloc - before.TotalAlloc) / slots; n > 800 {
		t.Errorf("the boundary allocated %d bytes a slot", n)
	}
}
