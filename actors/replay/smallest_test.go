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
	return Allocator{Name: "needing", New: func(_ context.Context, _ *trace.Trace, c Config) (Target, error) {
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
		got, err := a.Smallest(context.Background(), tr, Config{}, mem.Bytes(c.from)*mem.HandleSize, nil)
		if err != nil || got != mem.Bytes(c.need)*mem.HandleSize {
			t.Errorf("%s: %v, error %v, wanted %d handles; tried %d", c.name, got, err, c.need, tried)
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
		if n := mem.Handles(got); err != nil || !jumpy(n) || n > 1 && jumpy(n-1) {
			t.Errorf("%d: %d handles, error %v", odd, n, err)
		}
	}
}

func TestSmallestWhereNoneSuffices(t *testing.T) {
	var tried []int64
	tr := script(t, "one", "# workload one\n# step 0\na,0,1,0,1\nr,0,2\nf,0,2\n# end")
	a := needing(&tried, func(int64) bool { return false })
	if got, err := a.Smallest(context.Background(), tr, Config{}, 0, nil); err == nil || !strings.Contains(err.Error(), "no size suffices") {
		t.Errorf("%v, error %v after %d replays", got, err, len(tried))
	}
}

func TestSmallestStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	tr := script(t, "one", "# workload one\n# step 0\na,0,1,0,1\nr,0,2\nf,0,2\n# end")
	var tried []int64
	a := needing(&tried, func(int64) bool { cancel(); return true })
	if _, err := a.Smallest(ctx, tr, Config{}, 64*mem.HandleSize, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after %d replays", err, len(tried))
	}
}

// TestSmallestOfARecording: every allocator runs on the device that was found for it, and
// not on the next smaller one.
func TestSmallestOfARecording(t *testing.T) {
	tr, err := trace.ReadFile("../../tests/traces/packed_varlen.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Allocators {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			c := config
			free := replayed(t, tr, a.Name, c)
			shown := make(map[string]bool)
			got, err := a.Smallest(context.Background(), tr, c, free.PeakReserved, func(on mem.Bytes) func(done, total int) {
				return func(done, total int) { shown[fmt.Sprint(on, done == total)] = true }
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Capacity = got; replayed(t, tr, a.Name, c).OOM {
				t.Errorf("out of memory on the smallest device, %v", got)
			}
			if c.Capacity -= mem.HandleSize; !replayed(t, tr, a.Name, c).OOM {
				t.Errorf("%v suffice, too; found was %v", c.Capacity, got)
			}
			if got < tr.PeakLoad() || got%mem.HandleSize != 0 || !shown[fmt.Sprint(got, true)] {
				t.Errorf("the load is %v, the smallest device %v, progress was shown for %v", tr.PeakLoad(), got, shown)
			}
		})
	}
}
