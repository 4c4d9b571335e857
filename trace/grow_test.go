package trace

import (
	"strings"
	"testing"

	"stalloc/internal/mem"
)

func sized(batch int64, extra ...Event) *Trace {
	events := []Event{
		{Kind: Alloc, ID: 7, Size: 1000},
		{Kind: Mark, Mark: "step 0"},
		{Kind: Alloc, ID: batch * 100, Size: mem.Bytes(50 + 10*batch), Stream: 1, Micros: batch},
		{Kind: FreeRequested, ID: batch * 100, Micros: 2 * batch},
		{Kind: FreeCompleted, ID: batch * 100, Micros: 2 * batch},
	}
	return &Trace{Name: "sized", Events: append(events, extra...)}
}

// TestGrow: runs that are a line in the size are made up exactly, between and outside.
func TestGrow(t *testing.T) {
	g, err := Grow(sized(4), sized(8), 4, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int64{1, 4, 6, 8, 100} {
		made, want := g.At(float64(batch)), sized(batch)
		for i, e := range made.Events {
			w := want.Events[i]
			if e.Kind != w.Kind || e.Size != w.Size || e.Stream != w.Stream ||
				e.Micros != w.Micros || e.Mark != w.Mark {
				t.Errorf("size %d: %+v, wanted %+v", batch, e, w)
			}
		}
	}
	if size := g.At(-100).Events[2].Size; size != 0 {
		t.Errorf("%d bytes below nothing", size)
	}
}

func TestGrowOfOtherRequests(t *testing.T) {
	more := Event{Kind: Alloc, ID: 9, Size: 1}
	for _, c := range []struct {
		large *Trace
		want  string
	}{
		{sized(8, more), "the step with number 0 makes 1 requests in one and 2 in the other"},
		{sized(8, Event{Kind: Mark, Mark: "step 1"}), "one has 1 steps, the other 2"},
		{func() *Trace { tr := sized(8); tr.Events[2].Stream = 0; return tr }(),
			"request 1 is on stream 1 in one and 0 in the other"},
		{func() *Trace {
			tr := sized(8)
			tr.Events = append([]Event{more},
				tr.Events...)
			return tr
		}(), "makes 2 requests in one and 3"},
	} {
		if _, err := Grow(sized(4), c.large, 4, 8); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("error %v, expected %q", err, c.want)
		}
	}
}
