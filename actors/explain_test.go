package actors

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
)

// TestExplainNamesTheLargestGap: of two gaps between live blocks the larger.
func TestExplainNamesTheLargestGap(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	var live []mem.Addr
	for _, size := range []mem.Bytes{5, 3, 7, 3, 6} {
		live = append(live, k.malloc(size*mem.MiB))
	}
	k.release(live[0], live[2])
	if text := k.Explain(); !strings.Contains(text, "largest hole 7.00 MiB") {
		t.Errorf("explained %q", text)
	}
	k.release(live[1], live[3], live[4])
}

// TestOutOfMemoryNamesTheLimit only where there is one.
func TestOutOfMemoryNamesTheLimit(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	if _, err := k.Malloc(0, 9*mem.GiB); err == nil || strings.Contains(err.Error(), "limit") {
		t.Errorf("no limit is set: %v", err)
	}
	if err := k.Limit(0.5); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Malloc(0, 5*mem.GiB); err == nil || !strings.Contains(err.Error(), "more than the limit, 4.00 GiB") {
		t.Errorf("a limit of 4 GiB is set: %v", err)
	}
}

// TestReport: what is known when memory runs out goes to a file, too.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oom-%d.txt")
	k := newKit(t, Options{NoPlan: true, Report: path, Ordinal: 3})
	_, err := k.Malloc(7, 9*mem.GiB)
	path = strings.Replace(path, "%d", "3", 1)
	if !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "The report is in "+path) {
		t.Fatalf("refused: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "asked for") || !strings.Contains(string(text), `"asked_bytes":9663676416`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestTrace: steps, memory and the driver's work are in the trace, and an out of memory.
func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	trace, err := perfetto.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	k := newKit(t, Options{Inline: true, Trace: trace})
	for range 4 {
		k.release(k.malloc(32*mem.MiB), k.malloc(8*mem.MiB))
		if err := k.Step(); err != nil {
			t.Fatal(err)
		}
	}
	k.Malloc(0, 9*mem.GiB) // is refused
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !json.Valid(text) {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{`"step 2"`, `"driver"`, `"device 0 memory"`, `"out of memory: `, `"plan 1 serves"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
