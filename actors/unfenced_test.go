package actors

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/device/devicetest"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// What a driver answers about a stream that is being captured into a graph.
const (
	captured      = 900
	capturedEvent = 907
)

// A driver that takes no fence, cannot wait, or cannot tell about a fence.
var unfenced = map[string][]devicetest.Rule{
	"capture": {{Kind: devicetest.CallRecord, Code: captured},
		{Kind: devicetest.CallSync, Code: captured}},
	"query": {{Kind: devicetest.CallDone, Code: capturedEvent},
		{Kind: devicetest.CallSync, Code: captured}},
}

// use has another stream use a block: it is there.
func (k *kit) use(size mem.Bytes, id mem.StreamID) {
	k.t.Helper()
	at := k.malloc(size)
	if err := k.Record(at, id); err != nil {
		k.t.Fatal(err)
	}
	k.release(at)
}

// TestUnfencedBlockStaysTaken frees blocks that another stream uses while the driver takes
// no fence: of a plan, and of the pool. Nobody gets their bytes before the driver takes
// one and that stream has passed it, and then somebody does.
func TestUnfencedBlockStaysTaken(t *testing.T) {
	for what, rules := range unfenced {
		for _, planned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s planned %t", what, planned), func(t *testing.T) {
				logs, log := observer.New(zap.WarnLevel)
				k, fault := newFaultyKit(t, Options{Without: unplanned[!planned],
					Log: zap.New(logs)})
				sizes := tens(4)
				if planned {
					k.learn(sizes...)
				}
				at := k.malloc(sizes[0])
				if err := k.gpu.Use(other, at, sizes[0]); err != nil {
					t.Fatal(err)
				}
				if err := k.Record(at, other); err != nil {
					t.Fatal(err)
				}
				fault.Set(rules...)
				k.release(at)
				none := func() {
					t.Helper()
					for range 3 {
						for range 10 {
							again := k.malloc(sizes[0])
							if again < at+mem.Addr(sizes[0]) && at < again+mem.Addr(sizes[0]) {
								t.Fatal("the bytes were handed out while another stream used them")
							}
							k.release(again)
						}
						k.boundary()
					}
				}
				none()
				if text := k.Explain(); !strings.Contains(text, "no event") {
					t.Errorf("nothing is said of refused events: %s", text)
				}
				if n := log.FilterMessageSnippet("CUDA event").Len(); n != 1 {
					t.Errorf("%d lines about it, want one", n)
				}
				fault.Set()
				k.use(sizes[0], other)
				none() // the fence is there, and the stream has not passed it
				k.gpu.Finish(other)
				k.boundary()
				k.empty()
				if err := k.Trim(0); err != nil {
					t.Fatal(err)
				}
				if s := k.Stats(); s.Reserved != 0 {
					t.Errorf("%v are still held", s.Reserved)
				}
			})
		}
	}
}

// TestUnfencedBlocksBeforeOutOfMemory: what waits for a fence that was never recorded is
// looked at again before a request is refused.
func TestUnfencedBlocksBeforeOutOfMemory(t *testing.T) {
	for _, planned := range []bool{true, false} {
		k, fault := newFaultyKit(t, Options{Without: unplanned[!planned]})
		big := []mem.Bytes{5 * mem.GiB}
		if planned {
			k.learn(big...)
		}
		at := k.malloc(big[0])
		if err := k.Record(at, other); err != nil {
			t.Fatal(err)
		}
		fault.Set(unfenced["capture"]...)
		k.release(at)
		if addr, err := k.Malloc(0, 6*mem.GiB); err == nil {
			t.Fatalf("planned %t: %#x was handed out", planned, uint64(addr))
		}
		fault.Set()
		k.play(6 * mem.GiB)
		k.gpu.Finish(0)
	}
}

// TestNobodyWaitsBesideAPool: no request waits for the device while a private pool is being
// allocated to, its own included: another stream that it serves may be captured.
func TestNobodyWaitsBesideAPool(t *testing.T) {
	for pools := range 2 {
		b := newBehind(t, 0, busy{pools: pools})
		at := b.malloc(5 * mem.GiB)
		if err := b.Record(at, other); err != nil {
			t.Fatal(err)
		}
		b.release(at)
		b.gpu.Finish(0)
		addr, err := b.MallocIn(0, 7, 6*mem.GiB)
		if (err == nil) != (pools == 0) {
			t.Errorf("%d pools: %v", pools, err)
		}
		if err == nil {
			b.release(addr)
		}
	}
}

// TestPlansAfterAFailedFence: one fence that the driver refused does not end planning.
// Steps of another kind pass by, and the plan serves again.
func TestPlansAfterAFailedFence(t *testing.T) {
	k, fault := newFaultyKit(t, Options{})
	k.learn(tens(8)...)
	at := k.malloc(tens(8)[0])
	if err := k.Record(at, other); err != nil {
		t.Fatal(err)
	}
	fault.Set(devicetest.Rule{Kind: devicetest.CallRecord, Nth: 1, Code: 999})
	k.release(at)
	if fault.Injected() != 1 {
		t.Fatalf("%d calls failed", fault.Injected())
	}
	for range 100 { // of no planned size
		k.play(3*mem.MiB + 512)
	}
	k.use(tens(8)[0], other)
	k.boundary()
	k.gpu.Finish(other)
	k.boundary()
	k.learn(tens(8)...)
	k.empty()
}

// TestTrimWithoutAWait: where the device cannot be waited for, everything stays where it is, and
// goes back later.
func TestTrimWithoutAWait(t *testing.T) {
	k, fault := newFaultyKit(t, Options{Without: without.Plans})
	for id := range mem.StreamID(5) {
		addr, err := k.Malloc(id, mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		k.release(addr)
	}
	for _, held := range []mem.Bytes{5 * mem.HandleSize, 0} {
		if held > 0 {
			fault.Set(devicetest.Rule{Kind: devicetest.CallSync, Code: captured})
		}
		if err := k.Trim(0); err != nil {
			t.Fatal(err)
		}
		if s := k.Stats(); s.Reserved != held {
			t.Errorf("%v are held, want %v", s.Reserved, held)
		}
		fault.Set()
	}
}
