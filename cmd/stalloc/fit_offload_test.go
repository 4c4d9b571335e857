package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestFitOffload: a larger size fits with the optimizer states away. What is told of a recording is
// printed; its memory is what plan/residency finds, and a slower link takes longer.
func TestFitOffload(t *testing.T) {
	tr, err := trace.ReadFile("../../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(times int64) string { return filepath.Join(dir, fmt.Sprintf("%d.csv", times)) }
	for _, times := range []int64{2, 3, 4} {
		grown(t, tr, times, file(times))
	}
	const capacity = 61 * mem.GiB
	results := told(t, file, capacity, "--allocator", "stalloc", "--offload", "--link", "40GB")
	slow := told(t, file, capacity, "--allocator", "stalloc", "--offload", "--link", "10GB")
	without := told(t, file, capacity, "--allocator", "stalloc")
	if len(results) != 4 || len(without) != 3 || without[0].Offload != nil {
		t.Fatalf("%+v\n%+v", results, without)
	}
	live, away := results[0], results[1]
	if away.Allocator != offloadedTensors || away.CannotTell != "" ||
		away.Largest <= live.Largest ||
		len(away.Offload) != 3 || away.Low != away.Largest {
		t.Fatalf("%+v\n%+v", live, away)
	}
	for i, o := range away.Offload {
		if o.Size != int64(i+2) || o.States != 3812622336 || o.Blocks != 228 || o.Inferred ||
			o.Link != 40e9 || o.Fits != o.Whole-o.States || o.Step <= 0 || o.Longer <= 0 ||
			slow[1].Offload[i].Longer <= o.Longer || slow[1].Offload[i].Fits != o.Fits {
			t.Errorf("%+v", o)
		}
	}
	out, errs, status := run(t, "fit", "--allocator", "native", "--capacity", "61GiB", "--offload",
		"--link", "40GB", "--at", "2="+file(2), "--at", "3="+file(3), "--at", "4="+file(4))
	o := away.Offload[0]
	want := fmt.Sprintf("size 2: with optimizer states offloaded (3.55 GiB)\n"+
		"live tensors fit in %v instead of %v; a step of %d ms takes\n"+
		"about %d ms longer on a link of 40 GB/s\n",
		o.Fits.Up(), o.Whole.Up(), (o.Step+5e5)/1e6, (o.Longer+5e5)/1e6)
	if status != 0 || errs != "" || !strings.Contains(out, want) ||
		!strings.Contains(out, offloadedTensors) {
		t.Errorf("exit %d, %s%s\nwant %s", status, errs, out, want)
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestFitOffloadUnknown: without states the row says why, and all else is told.
func TestFitOffloadUnknown(t *testing.T) {
	tr, err := trace.ReadFile("../../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	last := tr.Steps()[1][1]
	tr.Events = append(tr.Events[:last:last], trace.Event{Kind: trace.Mark, Mark: "end"})
	dir := t.TempDir()
	file := func(times int64) string { return filepath.Join(dir, fmt.Sprintf("%d.csv", times)) }
	for _, times := range []int64{2, 3, 4} {
		grown(t, tr, times, file(times))
	}
	results := told(t, file, 64*mem.GiB, "--allocator", "native", "--offload")
	if len(results) != 4 || !strings.Contains(results[1].CannotTell, "size 2: optimizer states") ||
		results[1].Offload != nil || results[0].Largest == 0 {
		t.Errorf("%+v", results)
	}
}
