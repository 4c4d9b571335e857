package period

import (
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// event is a request (size > 0) or a free (size < 0) of the main stream.
type event = mem.Bytes

// recording is the main stream of a trace. A mark is the number of events
// before it.
type recording struct {
	name       string
	events     []event
	steps      []int // "step k" for k ≥ 1, and "end"
	optimizers []int
}

func load(t testing.TB, path string) recording {
	t.Helper()
	tr, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{name: tr.Name}
	size := map[int64]event{}
	for _, e := range tr.Events {
		switch e.Kind {
		case trace.Alloc:
			if e.Stream == 0 {
				size[e.ID] = mem.Round(e.Size)
				r.events = append(r.events, size[e.ID])
			}
		case trace.FreeCompleted:
			if n := size[e.ID]; n != 0 {
				r.events = append(r.events, -n)
			}
		case trace.Mark:
			switch {
			case e.Mark == "optimizer":
				r.optimizers = append(r.optimizers, len(r.events))
			case e.Mark == "end" || strings.HasPrefix(e.Mark, "step ") && e.Mark != "step 0":
				r.steps = append(r.steps, len(r.events))
			}
		}
	}
	return r
}

func recordings(t testing.TB) []recording {
	t.Helper()
	paths, err := filepath.Glob("../../tests/traces/*.csv.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := make([]recording, 0, len(paths))
	for _, p := range paths {
		all = append(all, load(t, p))
	}
	return all
}

// feed returns the places at which d reports boundaries.
func feed(d *Detector, events []event) []int {
	var at []int
	for i, e := range events {
		if e < 0 {
			d.Free(-e)
		} else if d.Alloc(e) {
			at = append(at, i)
		}
	}
	return at
}

// score is what a test of boundaries against marks found.
type score struct {
	hits, missed, spurious int
	first                  int // index of the first mark met
	late                   int // most events between a mark and its boundary
}

// match compares boundaries with marks. A boundary meets a mark if no event of
// at least cut bytes lies between them: both are then the same place between
// two large blocks. Marks before the first one met count as neither.
func match(events []event, marks, got []int, cut mem.Bytes) score {
	s := score{first: -1}
	next := 0
	for i, m := range marks {
		for next < len(got) && got[next] < m && !same(events, got[next], m, cut) {
			next++
			s.spurious++
		}
		if next < len(got) && same(events, m, got[next], cut) {
			s.late = max(s.late, got[next]-m, m-got[next])
			next++
			s.hits++
			if s.first < 0 {
				s.first = i
			}
		} else if s.first >= 0 {
			s.missed++
		}
	}
	s.spurious += len(got) - next
	return s
}

func same(events []event, a, b int, cut mem.Bytes) bool {
	for _, e := range events[min(a, b):max(a, b)] {
		if e >= cut || -e >= cut {
			return false
		}
	}
	return true
}

// TestRecordings holds the boundaries against the marks of the recorded runs.
// Their first regular step is step 1 (step 0 creates the optimizer's state), so
// after two periods the boundary at mark "step 3" is the first that can be
// known. Nothing else may be reported before or after.
func TestRecordings(t *testing.T) {
	for _, r := range recordings(t) {
		var d Detector
		// A boundary shows with the request behind it: behind "end" the step
		// before begins again.
		begin, end := r.steps[len(r.steps)-2], r.steps[len(r.steps)-1]
		events := append(r.events[:end:end], r.events[begin:begin+64]...)
		got := feed(&d, events)
		s := match(events, r.steps, got, d.cut)
		t.Logf("%-18s marks %6v, first met: step %d, missed %d, spurious %d, at most %d events apart, all below %v",
			r.name, r.steps, s.first+1, s.missed, s.spurious, s.late, d.cut)
		if s.first != 2 || s.missed != 0 || s.spurious != 0 {
			t.Errorf("%s: boundaries at %v", r.name, got)
		}
		if s.late > 8 || d.cut > 256*mem.KiB {
			t.Errorf("%s: boundaries %d events apart from their marks, cut %v", r.name, s.late, d.cut)
		}
	}
}
