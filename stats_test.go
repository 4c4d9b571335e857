package stalloc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stalloc"
)

// TestNative: what PyTorch's allocator would have reserved is told of a program like any other.
func TestNative(t *testing.T) {
	a := open(t, stalloc.Options{})
	for range 3 {
		must(t, a.Free(malloc(t, a, 0, 50*stalloc.MiB)), a.Step())
	}
	for a.Stats().NativeSteps < 3 { // it is simulated beside the program
		time.Sleep(time.Millisecond)
	}
	if s := a.Stats(); s.NativePeakReserved != 50*stalloc.MiB || s.NativeFull {
		t.Errorf("%+v", s)
	}
}

// TestStatsAreNamed: what is printed says what each number is.
func TestStatsAreNamed(t *testing.T) {
	a := open(t, stalloc.Options{})
	must(t, a.Free(malloc(t, a, 0, 50*stalloc.MiB)), a.Step())
	text := fmt.Sprint(a.Stats())
	for _, want := range []string{"requests 1", "steps 1", "allocated 0 B of at most 50.00 MiB",
		"driver calls "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
