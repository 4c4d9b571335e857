package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSolve: a problem is solved, its offsets are a problem again, of which all is pinned, and it
// is drawn.
func TestSolve(t *testing.T) {
	dir := t.TempDir()
	file, offsets, svg := filepath.Join(dir, "p.csv"), filepath.Join(dir,
		"o.csv"), filepath.Join(dir, "p.svg")
	problem := "id,lower,upper,size,gaps,alignment\na,0,10,4,3-7,4\nb,3,7,4,,1\nc,0,10,3,,1\n"
	if err := os.WriteFile(file, []byte(problem), 0o600); err != nil {
		t.Fatal(err)
	}
	greedy := filepath.Join(dir, "greedy.csv") // fits in 16; largest first, in 18
	if err := os.WriteFile(greedy, []byte("2,7,4\n6,11,4\n0,4,3\n1,4,4\n0,4,5\n0,1,6\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--capacity", "7", "-o", offsets, "--svg", svg, file},
		{offsets}, {"--solver", "exact", file}} {
		out, errs, status := run(t, append([]string{"plan", "--json"}, args...)...)
		var r solveResult
		if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
			t.Fatalf("%v: %d, %v, %s", args, status, err, errs)
		}
		if r.Buffers != 3 || r.Top != 7 || r.Gap != 0 || !r.Optimal || r.Fits != "yes" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if drawn, err := os.ReadFile(svg); err != nil || strings.Count(string(drawn), "<rect") != 4 {
		t.Errorf("%v: %s", err, drawn)
	}
	for _, args := range [][]string{{"--capacity", "6", file}, {"--capacity", "17", "--solver",
		"firstfit", greedy}} {
		none := filepath.Join(dir, "none")
		out, errs, status := run(t,
			append([]string{"plan", "--json", "-o", none, "--svg", none + ".svg"}, args...)...)
		if left, _ := filepath.Glob(none + "*"); status != exitFailed ||
			strings.Contains(out, `"yes"`) || !strings.Contains(errs, "--capacity "+args[1]) ||
			left != nil {
			t.Errorf("%v: exit %d, %s, %s, wrote %v", args, status, out, errs, left)
		}
	}
}

func TestSolveRefuses(t *testing.T) {
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad.csv"), filepath.Join(dir, "good.csv")
	if err := os.WriteFile(bad, []byte("0,4,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(good, []byte("0,4,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.csv")
	if err := os.WriteFile(empty, []byte("4,4,2\n0,4,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"none of its buffers takes memory": {"--pareto", empty},

		"bad.csv: line 1":                {bad},
		"choose from":                    {"--solver", "magic", good},
		"give them apart":                {good, "testdata/traces/tiny.csv"},
		"solve them one":                 {"-o", filepath.Join(dir, "x"), good, good},
		"leave out -o":                   {"--pareto", "-o", filepath.Join(dir, "x"), good},
		"--solver is of one placement":   {"--pareto", "--solver", "exact", good},
		"--capacity is of one placement": {"--pareto", "--capacity", "9", good},
		"--budget is of one placement":   {"--pareto", "--budget", "9", good},

		"no capacity":     {"--capacity", "0", good},
		"--budget is for": {"--budget", "9", "testdata/traces/tiny.csv"},
		"--seed is for":   {"--seed", "9", "testdata/traces/tiny.csv"},
		"no such file":    {"--solver", "exact", filepath.Join(dir, "none")},
	} {
		if _, errs, status := run(t, append([]string{"plan"}, args...)...); status == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %q, expected %q", args, status, errs, want)
		}
	}
}

// TestFrontCSV: a row has what a CSV can hold.
func TestFrontCSV(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	if err := os.WriteFile(file, []byte("0,4,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status := run(t, "plan", "--pareto", "--format", "csv", file)
	if want := "version,problem,point,memory,handles,moved,late\n1,p,0,"; status != 0 ||
		!strings.HasPrefix(out, want) || strings.Contains(out, "map") {
		t.Errorf("exit %d, %s%s", status, errs, out)
	}
}

// TestPlanExample: the first example of the help does what it says.
func TestPlanExample(t *testing.T) {
	line, _, _ := strings.Cut(newPlan().Example, "\n")
	args := strings.Fields(strings.ReplaceAll(line, "tests/traces", "../../tests/traces"))
	if _, errs, status := run(t, args[1:]...); status != 0 {
		t.Errorf("%s: exit %d, %s", line, status, errs)
	}
}
