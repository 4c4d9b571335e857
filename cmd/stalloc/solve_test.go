package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSolve: a problem is solved, its offsets are a problem again, of which all is pinned, and it is drawn.
func TestSolve(t *testing.T) {
	dir := t.TempDir()
	file, offsets, svg := filepath.Join(dir, "p.csv"), filepath.Join(dir, "o.csv"), filepath.Join(dir, "p.svg")
	problem := "id,lower,upper,size,gaps,alignment\na,0,10,4,3-7,4\nb,3,7,4,,1\nc,0,10,3,,1\n"
	if err := os.WriteFile(file, []byte(problem), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--capacity", "7", "-o", offsets, "--svg", svg, file}, {offsets}, {"--solver", "exact", file}} {
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
	out, _, _ := run(t, "plan", "--json", "--capacity", "6", file)
	if !strings.Contains(out, `"never"`) {
		t.Errorf("a capacity below the load: %s", out)
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
	for want, args := range map[string][]string{
		"bad.csv: line 1": {bad},
		"choose from":     {"--solver", "magic", good},
		"give them apart": {good, "testdata/traces/tiny.csv"},
		"solve them one":  {"-o", filepath.Join(dir, "x"), good, good},
		"no capacity":     {"--capacity", "0", good},
		"--budget is for": {"--budget", "9", "testdata/traces/tiny.csv"},
		"--seed is for":   {"--seed", "9", "testdata/traces/tiny.csv"},
		"no such file":    {"--solver", "exact", filepath.Join(dir, "none")},
	} {
		if _, errs, status := run(t, append([]string{"plan"}, args...)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %q, expected %q", args, status, errs, want)
		}
	}
}
