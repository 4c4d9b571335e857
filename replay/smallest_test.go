package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// needing is an allocator that is out of memory on a device for which suffices says no,
// and writes down which it was run on, in handles.
func needing(tried *[]int64, suffices func(handles int64) bool) Allocator {
	return Allocator{Name: "needing",
		New: func(_ context.Context, _ *trace.Trace, c Config) (Target, error) {
			handles := mem.Handles(c.Capacity)
			*tried = append(*tried, handles)
			target := &recorder{full: -1, done: make([]Done, 3)}
			if !suffices(handles) {
				target.failed = &driver.Error{Call: "cuMemCreate", Code: driver.CodeOutOfMemory}
			}
			return target, nil
		}}
}

func TestSmallest(t *testing.T) {
	// A load of four handles and a bit.
	tr := script(t, "five", "# workload five\n# step 0\na,0,9000000,0,1\nr,0,2\nf,0,2\n# end")
	for _, c := range []struct {
		name string
		from int64 // in handles
		need int64
		most int // replays
	}{
		{"the peak load itself", 40, 5, 7},
		{"more than that", 40, 17, 7},
		{"what was reserved", 40, 40, 7},
		{"more than was reserved", 40, 45, 7},
		{"far more than was reserved", 5, 5000, 26},
		{"nothing known", 0, 6, 3},
	} {
		var tried []int64
		a := needing(&tried, func(handles int64) bool { return handles >= c.need })
		got, err := a.Smallest(context.Background(), tr, Config{}, mem.Bytes(c.from)*mem.HandleSize,
			nil)
		if err != nil || got.FitsIn != mem.Bytes(c.need)*mem.HandleSize {
			t.Errorf("%s: %v, error %v, wanted %d handles; tried %d", c.name, got, err, c.need,
				tried)
		}
		if len(tried) > c.most {
			t.Errorf("%s: %d replays, expected at most %d: %d", c.name, len(tried), c.most, tried)
		}
	}
}

// TestSmallestOfAJumpyAllocator: what is returned suffices, and one handle less does not.
func TestSmallestOfAJumpyAllocator(t *testing.T) {
	tr := script(t, "one", "# workload one\n# step 0\na,0,1,0,1\nr,0,2\nf,0,2\n# end")
	for odd := range int64(60) {
		var tried []int64
		jumpy := func(handles int64) bool {
			return handles >= 20 && handles%7 != odd%7 || handles >= 60 || handles == odd
		}
		a := needing(&tried, jumpy)
		got, err := a.Smallest(context.Background(), tr, Config{}, 64*mem.HandleSize, nil)
		if n := mem.Handles(got.FitsIn); err != nil || !jumpy(n) || n > 1 && jumpy(n-1) {
			t.Errorf("%d: %d handles, error %v", odd, n, err)
		}
	}
}

func TestSmallestWhereNoneSuffices(t *testing.T) {
	var tried []int64
	tr := script(t, "one", "# workload one\n# step 0\na,0,1,0,1\nr,0,2\nf,0,2\n# end")
	a := needing(&tried, func(int64) bool { return false })
	if got, err := a.Smallest(context.Background(), tr, Config{}, 0, nil); err == nil ||
		!strings.Contains(err.Error(), "no size suffices") {
		t.Errorf("%v, error %v after %d replays", got, err, len(tried))
	}
}

func TestSmallestStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	tr := script(t, "one", "# workload one\n# step 0\na,0,1,0,1\nr,0,2\nf,0,2\n# end")
	var tried []int64
	a := needing(&tried, func(int64) bool { cancel(); return true })
	if _, err := a.Smallest(ctx, tr, Config{}, 64*mem.HandleSize, nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v after %d replays", err, len(tried))
	}
}

// TestSmallestOfARecording: every allocator runs on the device that was found for it, and
// not on the next smaller one.
func TestSmallestOfARecording(t *testing.T) {
	tr, err := trace.ReadFile("../tests/traces/packed_varlen.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Allocators {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			c := config
			free := replayed(t, tr, a.Name, c)
			shown := make(map[string]bool)
			got, err := a.Smallest(context.Background(), tr, c, free.PeakReserved,
				func(on mem.Bytes) func(done, total int) {
					return func(done, total int) { shown[fmt.Sprint(on, done == total)] = true }
				})
			if err != nil {
				t.Fatal(err)
			}
			const apart = 10 * mem.HandleSize // a thousandth of the load
			for _, of := range []struct {
				name     string
				size     mem.Bytes
				suffices func(*Result) bool
			}{
				{"fits in", got.FitsIn, func(r *Result) bool { return !r.OOM }},
				{"at full speed in", got.FullSpeedIn, (*Result).AtFullSpeed},
			} {
				if of.size == 0 { // GMLake stitches in every step, whatever the device
					if on := replayed(t, tr, a.Name, c); of.suffices(&on) || a.Name != "gmlake" {
						t.Errorf("%s none, but in %v", of.name, c.Capacity)
					}
					continue
				}
				on := c
				if on.Capacity = of.size; !suffices(t, tr, a.Name, on, of.suffices) {
					t.Errorf("%s %v: not so", of.name, of.size)
				}
				on.Capacity -= apart
				if on.Capacity >= tr.PeakLoad() && suffices(t, tr, a.Name, on, of.suffices) {
					t.Errorf("%s %v: also in %v", of.name, of.size, on.Capacity)
				}
				if of.size < tr.PeakLoad() || of.size%mem.HandleSize != 0 ||
					!shown[fmt.Sprint(of.size, true)] {
					t.Errorf("the load is %v, %s %v, progress was shown for %v", tr.PeakLoad(),
						of.name, of.size, shown)
				}
			}
		})
	}
}

func suffices(t *testing.T, tr *trace.Trace, allocator string, c Config,
	suffices func(*Result) bool) bool {
	r := replayed(t, tr, allocator, c)
	return suffices(&r)
}

// paced is an allocator that needs some handles to come to the end, and in the steady part
// has its driver work and its requests tried again on devices below others.
func paced(fits, fast, calm int64) Allocator {
	return Allocator{Name: "paced", New: func(_ context.Context, _ *trace.Trace, c Config) (Target,
		error) {
		handles := mem.Handles(c.Capacity)
		target := &recorder{full: -1, done: make([]Done, 5)}
		if handles < fits {
			target.failed = &driver.Error{Call: "cuMemCreate", Code: driver.CodeOutOfMemory}
		}
		// The steady part is the last two steps, of 1499 microseconds together.
		for i := range target.done {
			target.done[i].TimeUS = 400 * float64(min(i, 2)) // the first steps are free
		}
		if target.done[3] = target.done[2]; handles < fast {
			target.done[3].TimeUS += 15.5
		} else {
			target.done[3].TimeUS += 14.5
		}
		if target.done[4] = target.done[3]; handles < calm {
			target.done[4].Retries++
		}
		return target, nil
	}}
}

// TestFullSpeed: the driver's share of the steady part and requests that are tried again
// there decide; the first steps do not.
func TestFullSpeed(t *testing.T) {
	tr := script(t, "steps",
		"# workload steps\n# step 0\na,0,9000000,0,1\nr,0,2\nf,0,2\n# step 1\na,1,9000000,0,500\nr,1,501\nf,1,501\n"+
			"# step 2\na,2,512,0,1000\n# step 3\na,3,512,0,1500\na,4,512,0,2000\n# end")
	for _, c := range []struct{ fits, fast, calm, want int64 }{
		{5, 5, 5, 5}, {7, 30, 9, 30}, {7, 9, 30, 30}, {20, 5, 9, 20}, {7, 100, 9, 100}, {7, 9999, 9,
			0},
	} {
		got, err := paced(c.fits, c.fast, c.calm).Smallest(context.Background(), tr, Config{},
			40*mem.HandleSize, nil)
		if want := (Sizes{mem.Bytes(c.fits) * mem.HandleSize,
			mem.Bytes(c.want) * mem.HandleSize}); err != nil || got != want {
			t.Errorf("%+v: %+v, want %+v, error %v", c, got, want, err)
		}
	}
	tr.Events = tr.Events[:5]
	if got, err := paced(7, 7, 7).Smallest(context.Background(), tr, Config{}, 0,
		nil); err != nil || got.FitsIn != 7*mem.HandleSize || got.FullSpeedIn != 0 {
		t.Errorf("without a steady part: %+v, error %v", got, err)
	}
}
