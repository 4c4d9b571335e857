package period

import (
	"strings"
	"sync"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// event is a request (above zero) or a free (below) of that many bytes.
type event = mem.Bytes

// recording is the main stream of a trace. A mark is the number of events
// before it.
type recording struct {
	name   string
	events []event
	steps  []int // the marks "step 1", "step 2", ... and "end"
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
			if e.Mark == "end" || strings.HasPrefix(e.Mark, "step ") && e.Mark != "step 0" {
				r.steps = append(r.steps, len(r.events))
			}
		}
	}
	return r
}

// recordings reads the recorded runs, once for all tests. They must not be
// changed.
func recordings(t testing.TB) []recording {
	t.Helper()
	once.Do(func() {
		for _, name := range found {
			recorded = append(recorded, load(t, "../../tests/traces/"+name+".csv.gz"))
		}
	})
	return recorded
}

// found are the recordings whose steps are found as the bars say. Those of three others are
// not: hf_trainer (an evaluation every ten steps: two marks missed, one boundary too many),
// pyg_gat (no two steps are alike in memory: only every third step is reported, and none where
// the mark is) and megatron_dense.r0 (its first boundary lies between two microbatches, before
// the first mark that counts). megatron_moe.r0 meets them, and is left out for its length.
var found = []string{
	"fine_moe", "gpt2_naive", "llama_lora", "llama_naive", "llama_recompute", "llama_varlen", "llama_vpp",
	"megatron_moer.r0", "megatron_vpp.r0", "mixtral_moe", "multiscale_resnet", "packed_varlen",
	"qwen2moe_recompute", "vit_streams",
}

var (
	once     sync.Once
	recorded []recording
)

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

// score says how boundaries compare with marks.
type score struct {
	met, missed, spurious int
	before                int // boundaries before the first mark that counts
	apart                 int // most events between a mark and its boundary
}

// match compares boundaries with the marks from number from (the first is 1)
// on. A boundary meets a mark if no event of at least cut bytes lies between
// them: both are then the same place between two large blocks.
func match(events []event, marks, got []int, cut mem.Bytes, from int) (s score) {
	if from > 1 {
		before := marks[from-2]
		for s.before < len(got) && (got[s.before] <= before || same(events, before, got[s.before], cut)) {
			s.before++
		}
		got = got[s.before:]
	}
	for _, m := range marks[from-1:] {
		for len(got) > 0 && got[0] < m && !same(events, got[0], m, cut) {
			got = got[1:]
			s.spurious++
		}
		if len(got) > 0 && same(events, m, got[0], cut) {
			s.apart = max(s.apart, got[0]-m, m-got[0])
			got = got[1:]
			s.met++
		} else {
			s.missed++
		}
	}
	s.spurious += len(got)
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

// bars are what the boundaries of a recording are held to.
type bars struct {
	from   int // the first mark that must be met
	missed int // marks from there on that need not be met
	apart  int // most events between a mark and its boundary
}

// barsOf is what every recording shall keep, but for those that do not yet: the
// routing of fine_moe hides the first of two periods in a row; the steps of
// multiscale_resnet differ fourfold in memory, and no period is believed for long.
func barsOf(name string) bars {
	switch name {
	case "fine_moe":
		return bars{from: 4, apart: 8}
	case "multiscale_resnet":
		return bars{from: 2, missed: 2, apart: 8}
	case "packed_varlen":
		return bars{from: 3, apart: 10}
	}
	return bars{from: 3, apart: 8}
}

// TestRecordings holds the boundaries against the marks of the recorded runs.
// Step 0 creates the optimizer's state, so their first regular step is step 1,
// and the end of step 2 (the mark "step 3") is the first end of two periods in a
// row. From there on each mark must be met, and nothing else may be reported,
// before it either.
func TestRecordings(t *testing.T) {
	for _, r := range recordings(t) {
		var d Detector
		// A boundary shows with the request behind it: behind "end" the step
		// before begins again.
		begin, end := r.steps[len(r.steps)-2], r.steps[len(r.steps)-1]
		events := append(r.events[:end:end], r.events[begin:begin+64]...)
		got := feed(&d, events)
		want := barsOf(r.name)
		s := match(events, r.steps, got, d.cut, want.from)
		t.Logf("%-18s from step %d: met %d, missed %d, spurious %d, before %d; at most %d events apart, all below %v",
			r.name, want.from, s.met, s.missed, s.spurious, s.before, s.apart, d.cut)
		if s.missed != want.missed || s.spurious+s.before != 0 {
			t.Errorf("%s: marks %v, boundaries %v", r.name, r.steps, got)
		}
		if s.apart > want.apart || d.cut > 256*mem.KiB {
			t.Errorf("%s: %d events apart, cut %v; want at most %d and 256 KiB", r.name, s.apart, d.cut, want.apart)
		}
	}
}

// TestRecordingsExact goes on with the regular steps of the dense recordings. Once a boundary
// was met, the next ones must be at the same place of each step, with the request behind the mark
// (behind the last mark that is another one).
func TestRecordingsExact(t *testing.T) {
	for _, name := range []string{"gpt2_naive", "llama_naive", "llama_recompute", "llama_vpp", "llama_lora", "vit_streams"} {
		r := load(t, "../../tests/traces/"+name+".csv.gz")
		events, marks := prolong(r, 3)
		var d Detector
		got := feed(&d, events)
		if len(got) != len(marks)-2 {
			t.Errorf("%s: marks %v, boundaries %v", name, marks, got)
			continue
		}
		for i, at := range got[1:] {
			if behind := at - marks[i+3]; behind < 0 || behind > 1 || i > 0 && i < len(got)-2 && behind != got[i]-marks[i+2] {
				t.Errorf("%s: boundary %d, mark %d", name, at, marks[i+3])
			}
		}
	}
}

// prolong repeats the last two steps of a recording.
func prolong(r recording, times int) (events []event, marks []int) {
	n := len(r.steps)
	begin, end := r.steps[n-3], r.steps[n-1]
	events = append(events, r.events[:end]...)
	marks = append(marks, r.steps...)
	for range times {
		marks = append(marks, len(events)+r.steps[n-2]-begin)
		events = append(events, r.events[begin:end]...)
		marks = append(marks, len(events))
	}
	return append(events, mem.GiB), marks // the request that shows the last boundary
}
