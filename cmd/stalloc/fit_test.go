package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// grown writes a recording whose blocks that come and go within a step are so many times as
// large, as with a larger batch.
func grown(t *testing.T, tr *trace.Trace, times int64, path string) {
	t.Helper()
	step, from, to := 0, make(map[int64]int), make(map[int64]int)
	for _, e := range tr.Events {
		switch {
		case e.Kind == trace.Mark && strings.HasPrefix(e.Mark, "step "):
			step++
		case e.Kind == trace.Alloc:
			from[e.ID] = step
		case e.Kind == trace.FreeCompleted:
			to[e.ID] = step
		}
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	fmt.Fprintln(w, "# workload grown")
	for _, e := range tr.Events {
		if e.Kind == trace.Alloc && from[e.ID] > 0 && from[e.ID] == to[e.ID] {
			e.Size *= mem.Bytes(times)
		}
		line, err := e.AppendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, "%s\n", line)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// told is what fit prints of recordings of llama_naive that are so many times as large.
func told(t *testing.T, file func(times int64) string, capacity mem.Bytes,
	arguments ...string) []fitResult {
	t.Helper()
	out, errs, status := run(t,
		append([]string{"fit", "--json", "--capacity", fmt.Sprintf("%dB", int64(capacity)),
			"--at", "2=" + file(2), "--at", "4=" + file(4), "--at", "3=" +
				file(3)}, arguments...)...)
	if status != 0 || errs != "" {
		t.Fatalf("exit %d, %s", status, errs)
	}
	var told []fitResult
	for line := range strings.Lines(out) {
		var r fitResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		told = append(told, r)
	}
	return told
}

// TestFit: what is told of sizes that were not recorded is what replays of them find. Between
// recordings that differ, a line says nearly the same.
func TestFit(t *testing.T) {
	tr, err := trace.ReadFile("../../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(times int64) string { return filepath.Join(dir, fmt.Sprintf("%d.csv", times)) }
	for times := range int64(8) {
		grown(t, tr, times, file(times))
	}
	larger, err := trace.ReadFile(file(6))
	if err != nil {
		t.Fatal(err)
	}
	capacity := larger.PeakLoad() + larger.PeakLoad()/60 // stalloc needs 1.43 to 1.67 % more
	fits := func(allocator string, times int64) bool {
		_, _, status := run(t, "replay", "--json", "--allocator", allocator, "--capacity",
			fmt.Sprintf("%dB", int64(capacity)), file(times))
		return status == 0
	}
	results := told(t, file, capacity, "--allocator", "native,stalloc")
	if len(results) != 5 || results[0].Allocator != liveTensors || results[0].Largest != 6 ||
		results[4].Figure != figureSpeed {
		t.Fatalf("%+v", results)
	}
	for _, r := range []fitResult{results[1], results[3]} {
		if r.CannotTell != "" || r.Method != methodReplay || !r.Checked || r.Largest < 4 ||
			r.Low != r.Largest || r.High != r.Largest ||
			!fits(r.Allocator, r.Largest) || fits(r.Allocator, r.Largest+1) {
			t.Errorf("%+v", r)
		}
	}
	if results[1].Largest >= results[3].Largest {
		t.Errorf("native wastes more: %+v", results)
	}
	tr.Events = append(tr.Events, trace.Event{Kind: trace.Alloc, ID: 1 << 40, Size: 1})
	grown(t, tr, 4, file(4))
	results = told(t, file, capacity, "--allocator", "stalloc")
	if r := results[1]; r.CannotTell != "" || r.Method != methodLine || r.Low > 6 || r.High < 6 ||
		r.High-r.Low > 2 || r.Each <= 0 || r.Fixed <= 0 {
		t.Errorf("%+v, truly 6", r)
	}
}

// TestFitBend: at small sizes the peak is in the optimizer's step, which does not grow.
func TestFitBend(t *testing.T) {
	arguments := []string{"fit", "--json", "--capacity", "100MiB", "--allocator", "native"}
	for _, size := range []int64{2, 4, 6} {
		path := filepath.Join(t.TempDir(), "bend.csv")
		text := "# workload bend\na,0,10485760,0,0\n"
		for step := range int64(4) {
			text += fmt.Sprintf("# step %d\na,%d,%d,0,%d\nr,%[2]d,%[4]d\nf,%[2]d,%[4]d\n", step,
				2*step+1, size<<20, 1000*step+100)
			text += fmt.Sprintf("a,%d,4194304,0,%d\nr,%[1]d,%[2]d\nf,%[1]d,%[2]d\n", 2*step+2,
				1000*step+200)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, "--at", fmt.Sprintf("%d=%s", size, path))
	}
	out, errs, status := run(t, arguments...)
	var live fitResult
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &live); err != nil ||
		status != 0 {
		t.Fatalf("exit %d, %v, %s%s", status, err, out, errs)
	}
	if live.Largest != 90 || live.Method != methodReplay || live.Fixed != 10<<20 ||
		live.Each != 1<<20 || live.Off != 0 {
		t.Errorf("%+v", live)
	}
}

// TestFitSizes: a program is recorded at each size, and told of as from recordings. The
// interpreter is a script that writes down how it was called and hands out what was recorded.
func TestFitSizes(t *testing.T) {
	tr, err := trace.ReadFile("../../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, times := range []int64{2, 3, 4} {
		grown(t, tr, times, filepath.Join(dir, fmt.Sprintf("%d.csv", times)))
	}
	python := filepath.Join(dir, "python")
	script := "#!/bin/sh\necho \"$@\" >> " + dir +
		"/calls\nfor last; do :; done\n[ \"$last\" != 9 ] || exit 3\ngzip -c " + dir +
		"/$last.csv > \"$6\"\necho training\n"
	if err := os.WriteFile(python, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"fit", "--json", "--allocator", "native", "--capacity", "60GiB"}
	want, _, status := run(t, append(arguments, "--at", "2="+dir+"/2.csv", "--at",
		"3="+dir+"/3.csv", "--at", "4="+dir+"/4.csv")...)
	if status != 0 {
		t.Fatal(status)
	}
	arguments = append(arguments, "--python", python, "--steps", "5")
	got, errs, status := run(t, append(arguments, "--sizes", "batch=2,3,4", "train.py", "--lr",
		"1")...)
	if status != 0 || got != want || !strings.Contains(errs, "training") {
		t.Errorf("exit %d, %s\n%s\nfrom recordings: %s", status, errs, got, want)
	}
	calls, err := os.ReadFile(dir + "/calls")
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	if err != nil || len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "-m stalloc.record --steps 5 -o ") ||
		!strings.HasSuffix(lines[1], "batch-3.csv.gz train.py --lr 1 --batch 3") {
		t.Errorf("%v, %q", err, lines)
	}
	if line := (measured{name: "s"}).commandLine([]string{"train.py", "--len={s}"},
		7); strings.Join(line, " ") != "train.py --len=7" {
		t.Errorf("%q", line)
	}
	t.Setenv("TMPDIR", t.TempDir()) // others may run stalloc fit meanwhile
	out, errs, status := run(t, append(arguments, "--sizes", "batch=2,9", "train.py")...)
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(),
		"stalloc-fit-*")); status != exitFailed || out != "" ||
		!strings.Contains(errs, "batch 9: exit status 3; what it printed is above") ||
		len(left) > 0 {
		t.Errorf("exit %d, %q, %s, %q", status, out, errs, left)
	}
}

// TestFitSizesWrong: a command line that is wrong runs no program.
func TestFitSizesWrong(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\n: > "+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"--allocator=no", `unknown allocator "no"`}, {"--allocator=", "--allocator names none"},
		{"--multiple=0", "--multiple 0: give a number of at least 1"},
		{"--sizes=batch=4,2199023255552", "whole sizes of 1 or more"},
	} {
		_, errs, status := run(t, "fit", "--python", python, "--sizes", "batch=4,8", c[0],
			"train.py")
		if _, err := os.Stat(ran); status != exitUsage || !strings.Contains(errs, c[1]) ||
			err == nil {
			t.Errorf("%s: exit %d, %s, ran: %v", c[0], status, errs, err == nil)
		}
	}
}

// TestFitRefuses: recordings that are no sizes of one program are refused, and nothing is told.
func TestFitRefuses(t *testing.T) {
	llama, other := "../../tests/traces/llama_naive.csv.gz", "../../tests/traces/gpt2_naive.csv.gz"
	for _, c := range [][3]string{
		{llama, other, "gpt2_naive.csv.gz makes 5389: these are no two sizes of one program"},
		{other, llama, "llama_naive.csv.gz makes 1997: these are no two sizes of one program"},
		{llama, llama, "these recordings do not tell how live tensors grow: a larger size takes no more memory"},
	} {
		out, errs, status := run(t, "fit", "--json", "--at", "4="+c[0], "--at", "8="+c[1])
		if status != exitFailed || out != "" || !strings.Contains(errs, c[2]) {
			t.Errorf("exit %d, %q, %s, wanted %s", status, out, errs, c[2])
		}
	}
}
