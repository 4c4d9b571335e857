package actors

import (
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// TestStreamsThatMayBeGone frees a block some time after the program has, and a stitched one: the
// driver is not told of a stream that used the one, nor of the other's own. It refuses any
// fence here.
func TestStreamsThatMayBeGone(t *testing.T) {
	for what, free := range map[string]func(*kit, *devicetest.Fault){
		"long ago": func(k *kit, fault *devicetest.Fault) {
			at := k.malloc(10 * mem.MiB)
			if err := k.Record(at, other); err != nil {
				k.t.Fatal(err)
			}
			fault.Set(devicetest.Rule{Kind: devicetest.CallRecord, Code: captured})
			if _, err := k.FreeDeferred(at); err != nil {
				k.t.Fatal(err)
			}
		},
		"stitched": func(k *kit, fault *devicetest.Fault) {
			var at []mem.Addr
			for range 40 {
				at = append(at, k.malloc(32*mem.MiB))
			}
			k.release(at[3], at[7])
			before := k.Stats().Reserved
			stitched := k.malloc(64 * mem.MiB)
			if k.Stats().Reserved > before {
				k.t.Fatal("nothing was stitched")
			}
			fault.Set(devicetest.Rule{Kind: devicetest.CallRecord, Code: captured})
			k.release(stitched)
			fault.Set()
			for i, a := range at {
				if i != 3 && i != 7 {
					k.release(a)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			k, fault := newFaultyKit(t, Options{Without: without.Plans})
			free(k, fault)
			if n := fault.Injected(); n != 0 {
				t.Errorf("%d fences were to be put on a stream that may be gone", n)
			}
			fault.Set()
			k.use(mem.MiB, other) // both streams are named
			k.gpu.Finish(other)
			k.boundary()
			if s := k.Stats(); s.Stats.Load != 0 || s.Pending != 0 {
				t.Errorf("all is freed, and %v are in use, %v wait", s.Stats.Load, s.Pending)
			}
		})
	}
}
