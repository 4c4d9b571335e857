package actors

import (
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// TestExplainNamesTheLargestGap: of two gaps between live blocks the larger.
func TestExplainNamesTheLargestGap(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	var live []mem.Addr
	for _, size := range []mem.Bytes{5, 3, 7, 3, 6} {
		live = append(live, k.malloc(size*mem.MiB))
	}
	k.release(live[0], live[2])
	if text := k.Explain(); !strings.Contains(text, "The largest gap is 7.00 MiB;") {
		t.Errorf("explained %q", text)
	}
	k.release(live[1], live[3], live[4])
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
