package residency

import (
	"testing"

	"stalloc/internal/mem"
)

// TestNeed: the most of the last 16 uses and an eighth, less what is away already; while others
// are used next, only what those need beyond free memory.
func TestNeed(t *testing.T) {
	var n Need
	const much = 100 * mem.GiB
	n.Note(30*mem.GiB, 0, much) // without a limit
	if got := n.Leaves(0, 0, 0, false); got > 0 {
		t.Errorf("without a limit %v leave", got)
	}
	n.Note(32*mem.GiB, 24*mem.GiB, much)
	n.Note(20*mem.GiB, 24*mem.GiB, much)
	n.Note(34*mem.GiB, 24*mem.GiB, n.Most()) // idle memory took what nothing waited for
	for _, x := range []struct {
		away, leaving, free mem.Bytes
		next                bool
		want                mem.Bytes
	}{
		{0, 0, 0, false, 9 * mem.GiB},
		{2 * mem.GiB, mem.GiB, 0, false, 6 * mem.GiB},
		{9 * mem.GiB, 0, 0, false, 0},
		{0, 0, 0, true, 0},                             // all is there
		{3 * mem.GiB, 0, 0, true, 3 * mem.GiB},         // what is away needs room
		{3 * mem.GiB, mem.GiB, mem.GiB, true, mem.GiB}, // of which there is some
		{8 * mem.GiB, 0, 0, true, mem.GiB},             // and not more than is needed later
	} {
		if got := n.Leaves(x.away, x.leaving, x.free, x.next); max(got, 0) != x.want {
			t.Errorf("%+v: %v leave", x, got)
		}
	}
	for range 16 {
		n.Note(0, 24*mem.GiB, much)
	}
	if got := n.Leaves(0, 0, 0, false); got > 0 {
		t.Errorf("16 uses later %v leave", got)
	}
}
