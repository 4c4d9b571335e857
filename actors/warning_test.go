package actors

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// TestALeakIsSaid keeps something of each step, at its beginning or at its end, until the device is
// full, and that of a limit: it is said once, right before the step that does not fit.
func TestALeakIsSaid(t *testing.T) {
	for _, limit := range []mem.Bytes{0, 6 * mem.GiB} {
		for _, early := range []bool{false, true} {
			core, logs := observer.New(zap.WarnLevel)
			opts := Options{Log: zap.New(core)}
			opts.Range.Limit = limit
			k := newKit(t, opts)
			keep := func() error {
				_, err := k.Malloc(0, 200*mem.MiB)
				return err
			}
			step := func() error {
				if early && keep() != nil {
					return keep()
				}
				a, err := k.Malloc(0, mem.GiB)
				if err == nil {
					var b mem.Addr
					if b, err = k.Malloc(0, mem.GiB); err == nil {
						k.release(b)
					}
					k.release(a)
				}
				if err == nil && !early {
					err = keep()
				}
				return err
			}
			steps := 0
			for ; step() == nil; steps++ {
				if logs.Len() > 0 {
					t.Fatalf("limit %v, early %v: step %d fits, and was said not to: %v", limit,
						early, steps, logs.All())
				}
				k.boundary()
			}
			if logs.Len() != 1 || steps < 10 {
				t.Errorf("limit %v, early %v: step %d does not fit, said was %v", limit, early,
					steps, logs.All())
			}
			if text := strings.Join(strings.Fields(k.Explain()), " "); !strings.Contains(text,
				fmt.Sprintf("Said after step %d: the next one will not fit", steps)) {
				t.Errorf("limit %v, early %v, step %d: %s", limit, early, steps, text)
			}
		}
	}
}

// TestWhatSleepsNeedsNothing: beside a region that sleeps, steps fit that would not if it were
// awake.
func TestWhatSleepsNeedsNothing(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	k := newKit(t, Options{Log: zap.New(core)})
	pool, err := region.Number("test: sleeps beside steps")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.MallocIn(0, pool, 5*mem.GiB); err != nil {
		t.Fatal(err)
	}
	if err := k.Pause([]uint64{pool}, false); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		k.play(3*mem.GiB, 3*mem.GiB)
		k.boundary()
	}
	if logs.Len() > 0 {
		t.Errorf("steps that fit: %v", logs.All())
	}
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	if err := k.Resume([]uint64{pool}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Malloc(0, 4*mem.GiB); err == nil {
		t.Error("4 GiB are served beside 5 GiB that are awake on a device of 8")
	}
}
