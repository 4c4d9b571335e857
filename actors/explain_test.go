package actors

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/actors/pool"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/live/perfetto"
)

// TestExplainNamesTheLargestGap: of two gaps between live blocks the larger.
func TestExplainNamesTheLargestGap(t *testing.T) {
	k := newKit(t, Options{Without: without.Plans})
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

// TestOutOfMemoryNamesSizesAndSteps: what is live is told by size and by step, and that
// something is kept of each step.
func TestOutOfMemoryNamesSizesAndSteps(t *testing.T) {
	k := newKit(t, Options{Without: without.Plans, Report: filepath.Join(t.TempDir(), "oom.txt")})
	live := []mem.Addr{k.malloc(mem.GiB)}
	for step := range 6 {
		if step == 2 {
			live = append(live, k.malloc(3*mem.MiB))
		}
		live = append(live, k.malloc(mem.GiB))
		k.release(k.malloc(64*mem.MiB), k.malloc(128*mem.MiB))
		k.boundary()
	}
	live = append(live, k.malloc(mem.GiB/2))
	_, err := k.Malloc(0, mem.GiB)
	text := err.Error()
	for _, want := range []string{
		"in live blocks                         7.50 GiB  9 blocks",
		"  7 of 1.00 GiB                          7.00 GiB  93.3 % of the load",
		"  1 of 3.00 MiB",
		"  set-up and step 1                      2.00 GiB",
		"  step 2                                 1.00 GiB",
		"  steps 3 to 5                           3.00 GiB",
		"  step 6                                 1.00 GiB",
		"  step 7, not yet over                 512.00 MiB",
		"3.00 GiB of steps 3 to 5 are still live",
		"The report is in ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	k.release(live[:3]...)
	if u := k.usage(); u.Whole < 2*mem.GiB || u.Private != 0 {
		t.Errorf("%v in whole handles, %v in private pools", u.Whole, u.Private)
	}
	k.release(live[3:]...)
}

// usage is what the pool tells when asked.
func (k *kit) usage() (u engine.Usage) {
	if err := k.onPool(func(p *pool.Pool) error { u = p.Usage(); return nil }, nil); err != nil {
		k.t.Fatal(err)
	}
	return u
}

// TestOutOfMemoryNamesTheLimit only where there is one.
func TestOutOfMemoryNamesTheLimit(t *testing.T) {
	k := newKit(t, Options{Without: without.Plans})
	if _, err := k.Malloc(0, 9*mem.GiB); err == nil || strings.Contains(err.Error(), "limit") {
		t.Errorf("no limit is set: %v", err)
	}
	if err := k.Limit(0.5); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Malloc(0, 5*mem.GiB); err == nil || !strings.Contains(err.Error(),
		"more than the limit, 4.00 GiB") {
		t.Errorf("a limit of 4 GiB is set: %v", err)
	}
}

// TestReport: what is known when memory runs out goes to a file, too.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oom-%d.txt")
	k := newKit(t, Options{Without: without.Plans, Report: path, Ordinal: 3})
	_, err := k.Malloc(7, 9*mem.GiB)
	path = strings.Replace(path, "%d", "3", 1)
	if !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(),
		"The report is in "+path) {
		t.Fatalf("refused: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "asked for") || !strings.Contains(string(text),
		`"asked_bytes":9663676416`) {
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
	for _, want := range []string{`"step 2"`, `"driver: take memory"`, `"requests":2`,
		`"device 0 memory"`, `"out of memory: `, `"plan 1 serves"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
