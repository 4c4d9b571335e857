package captures

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

var all = flag.Bool("all", false, "all recordings, each in several shapes, too")

// mostWaste bounds what a pool holds above the most that lives on each of its streams, in percent.
const mostWaste = 3.0

// TestWaste: captures into one pool share memory by lifetime, nearly as well as any plan could, and
// better than PyTorch's. With -v it prints what decision 33 has.
func TestWaste(t *testing.T) {
	var wasted []float64
	try := func(name string, s *Sequence) {
		ours, err := s.Ours()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		above := func(held, least mem.Bytes) float64 {
			return 100 * (float64(held)/float64(least) - 1)
		}
		line := fmt.Sprintf("%-28s %9v live", name, s.Peak)
		for _, allocator := range []string{"native", "expandable"} {
			theirs, err := s.Theirs(allocator)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			line += fmt.Sprintf(", %s %5.1f %%", allocator, above(theirs, s.Peak))
			if ours > theirs {
				t.Errorf("%s: %v, %s %v", name, ours, allocator, theirs)
			}
		}
		own := above(ours, s.Peak)
		wasted = append(wasted, own)
		t.Logf("%s, ours %.2f %%", line, own)
		if above(ours, s.Streams) > mostWaste {
			t.Errorf("%s: %v of %v that live on streams", name, ours, s.Streams)
		}
	}
	s := newSequence()
	s.Layers(24, 64*mem.MiB)
	try("layer by layer", s)
	batches := []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256}
	s = newSequence()
	s.Serve(8, 300*mem.KiB, batches)
	try("batches, the smallest first", s)
	slices.Reverse(batches)
	s = newSequence()
	s.Serve(8, 300*mem.KiB, batches)
	try("batches, the largest first", s)
	files, _ := filepath.Glob("../traces/*.csv.gz")
	if *all {
		more, _ := filepath.Glob("../traces/more/*.csv.gz")
		files = append(files, more...)
	}
	for i, file := range files {
		tr, err := trace.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := trace.BaseName(file)
		if *all || i%3 == 0 {
			tryShapes(t, tr, name, []float64{1}, false, try)
		}
		if *all || i%6 == 0 {
			tryShapes(t, tr, name+", falling", []float64{1, 0.75, 0.5, 0.25}, true, try)
			tryShapes(t, tr, name+", rising", []float64{0.25, 0.5, 0.75, 1}, true, try)
			tryShapes(t, tr, name+", mixed", []float64{0.6, 1, 0.3, 0.8, 0.45}, true, try)
		}
	}
	slices.Sort(wasted)
	t.Logf("%d sequences: median %.2f %%, most %.2f %%", len(wasted), wasted[len(wasted)/2],
		wasted[len(wasted)-1])
}

func tryShapes(t *testing.T, tr *trace.Trace, name string, shapes []float64, ends bool,
	try func(string, *Sequence)) {
	s := newSequence()
	for _, scale := range shapes {
		if err := s.Step(tr, scale, ends); err != nil {
			t.Fatal(err)
		}
	}
	try(name, s)
}
