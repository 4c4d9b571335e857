package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

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

// TestObeyed: what a terminal would obey is not printed, whatever a recording says.
func TestObeyed(t *testing.T) {
	var files []string
	for _, name := range []string{"base.csv", "new.csv"} {
		text := "# workload x\nk,0,,\x1b]0;title\a" + name + ".py:1 f\n# step \x1b[2J0\na,0,4096,0,1,0\n# end\n"
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, format := range []string{"table", "md"} {
		out, errs, status := run(t, "diff", "--format", format, files[0], files[1])
		obeyed := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if strings.ContainsFunc(out, obeyed) || status != 0 || !strings.Contains(out, "step ?[2J0") {
			t.Errorf("exit %d, %q, %s", status, out, errs)
		}
	}
}
