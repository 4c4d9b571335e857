package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

func readRun(t *testing.T, path string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile(path, trace.Frames())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestDiff: groups add up to the two peaks, whatever they are by, and to nothing between a run
// and itself.
func TestDiff(t *testing.T) {
	base, changed := readRun(t, traceFile("llama_naive")), readRun(t, traceFile("pyg_gat"))
	for _, by := range []string{"", ByShape, ByPhase} {
		for _, step := range []int{-1, 0, 3} {
			d, err := NewDiff(base, changed, by, step)
			if err != nil {
				t.Fatal(err)
			}
			var was, is mem.Bytes
			blocks := 0
			for _, g := range d.Groups {
				was, is, blocks = was+g.Base, is+g.New, blocks+g.NewBlocks
			}
			if was != d.Base.Load || is != d.New.Load || d.Change != is-was ||
				blocks != d.New.Blocks {
				t.Errorf("by %q, step %d: groups add up to %v and %v, %d blocks; the runs: %+v, %+v", by, step, was, is, blocks, d.Base, d.New)
			}
			if step < 0 && (was != base.PeakLoad() || is != changed.PeakLoad()) {
				t.Errorf("peaks of %v and %v", was, is)
			}
			if n := len(d.Steps); n != 37 || d.Steps[0].Name != setUp || d.Steps[5].Base != 0 ||
				d.Steps[36].New == 0 {
				t.Errorf("%d steps, %+v", n, d.Steps)
			}
		}
		d, err := NewDiff(base, base, by, -1)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range d.Groups {
			if g.Change != 0 || g.BaseBlocks != g.NewBlocks || g.Base == 0 {
				t.Errorf("a run and itself: %+v", g)
			}
		}
	}
}

// TestDiffOfStacks: a checkout elsewhere and lines that have moved are the same place.
func TestDiffOfStacks(t *testing.T) {
	base, changed := readRun(t, filepath.Join("testdata", "snapshot.pickle")), readRun(t,
		filepath.Join("testdata", "changed.pickle"))
	d, err := NewDiff(base, changed, "", -1)
	if err != nil {
		t.Fatal(err)
	}
	if d.By != ByStack || len(d.Groups) != 3 || d.Change != 5*mem.MiB {
		t.Fatalf("%+v", d)
	}
	g := d.Groups[0]
	if g.What != "model.py:49 forward (linear)" || g.BaseBlocks != 12 || g.NewBlocks != 13 ||
		g.Change != 5*mem.MiB || !strings.Contains(g.Stack, "/runner/train.py:16 step") {
		t.Errorf("%+v", g)
	}
}

func TestDiffThatCannotBe(t *testing.T) {
	run := readRun(t, traceFile("pyg_gat"))
	for _, c := range []struct {
		changed *trace.Trace
		by      string
		step    int
		want    string
	}{
		{run, ByStack, -1, "has no stacks: group by shape or phase"},
		{run, ByShape, 36, "has no such step: it has 36, the first is 0"},
		{&trace.Trace{Name: "empty"}, ByShape, -1, "empty holds no request"},
	} {
		if d, err := NewDiff(run, c.changed, c.by, c.step); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, error %v, expected %q", d, err, c.want)
		}
	}
}

// TestCompare: the page of two runs says what NewDiff finds, by every way to group.
func TestCompare(t *testing.T) {
	base, changed := readRun(t, filepath.Join("testdata", "snapshot.pickle")), readRun(t,
		filepath.Join("testdata", "changed.pickle"))
	c, err := Compare(base, changed)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.WriteHTML(&b, "v0.0.0-test"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	want := []string{"The peak rose by 5.00 MiB (&#43;4.10 %), from 122.00 MiB to 127.00 MiB.",
		`data-by="stack"`, `data-by="shape"`, `data-by="phase"`, "snapshot → changed", "v0.0.0-test"}
	for _, d := range c.Diffs {
		for _, g := range d.Changed() {
			want = append(want, fmt.Sprintf(`<td class="n" data-v="%d">%s</td>`, int64(g.Change),
				strings.ReplaceAll(Signed(g.Change), "+", "&#43;")))
		}
	}
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not have %s", text)
		}
	}
	if strings.Contains(page, "</script><img") {
		t.Error("a text of the recording is markup")
	}
	for _, d := range c.Diffs {
		if of := "The largest part: blocks of "; strings.Contains(d.Verdict(),
			of) != (d.By == ByShape) {
			t.Errorf("by %s: %s", d.By, d.Verdict())
		}
	}
	same, err := Compare(base, base)
	if err != nil || same.Diffs[0].Verdict() != "The peak is the same in both: 122.00 MiB." ||
		len(same.Diffs[0].Changed()) > 0 {
		t.Errorf("%v, %+v", err, same)
	}
}
