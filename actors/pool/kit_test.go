package pool

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/host"
	"stalloc/cuda/sim"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
)

// kit is a pool over a simulated device on which work ends only when told.
type kit struct {
	*Pool
	t   testing.TB
	gpu *sim.Device
}

func newKit(t testing.TB) *kit { return newKitOn(t, host.NewModel()) }

func newKitOn(t testing.TB, h host.Host) *kit {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: 8 * mem.GiB, Manual: true})
	begin := time.Now()
	clock := Clock{Now: func() time.Duration { return time.Since(begin) }, Sleep: time.Sleep}
	env := Env{Log: zap.NewNop(), Host: h, Clock: clock, Marked: new(atomic.Bool),
		Retries: new(atomic.Uint64)}
	p, err := New(gpu, env, onerange.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{p, t, gpu}
	t.Cleanup(func() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *kit) malloc(stream mem.StreamID, private uint64, size mem.Bytes) mem.Addr {
	k.t.Helper()
	m := &Request{Size: size, Stream: stream, Private: private}
	if k.Receive(m); m.Err != nil || m.Again {
		k.t.Fatal(m.Err, m.Again)
	}
	return m.Addr
}

func (k *kit) release(at mem.Addr) {
	k.t.Helper()
	m := &Free{Addr: at}
	if k.Receive(m); m.Err != nil {
		k.t.Fatal(m.Err)
	}
}
