package main

import (
	"os"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/report"
)

// TestWorkflow: the workflow in the docs runs as it stands there.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	_, workflow, _ := strings.Cut(string(text), "```yaml")
	_, after, _ := strings.Cut(workflow, "          stalloc diff ")
	line, _, found := strings.Cut(after, " | tee")
	if !found {
		t.Fatalf("no stalloc diff in %s", workflow)
	}
	for name, want := range map[string]int{"tiny": 0, "nomarks": exitFailed} {
		args := strings.Fields(strings.NewReplacer("base.csv.gz", "testdata/traces/"+name+".csv", "new.csv.gz", "testdata/traces/tiny.csv").Replace(line))
		out, errs, status := run(t, append([]string{"diff"}, args...)...)
		if status != want || !strings.Contains(out, "| live |") {
			t.Errorf("%s: exit %d, %s, %s", name, status, out, errs)
		}
	}
}

// TestGrowth: an amount and a share, to the byte.
func TestGrowth(t *testing.T) {
	d := &report.Diff{Base: report.DiffRun{Load: 100 * mem.MiB}, Change: mem.MiB}
	for text, want := range map[string]bool{"0": true, "0%": true, "0.99%": true, "1%": false,
		"1MiB": false, "1048575B": true, "2 %": false} {
		var g growth
		if err := g.Set(text); err != nil || g.exceeded(d) != want {
			t.Errorf("%q: %v, error %v", text, !want, err)
		}
	}
	if (&growth{}).exceeded(d) {
		t.Error("a growth that nobody limits")
	}
	for _, bad := range []string{"%", "one", "-1MiB", "NaN%", "10"} {
		if err := new(growth).Set(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
