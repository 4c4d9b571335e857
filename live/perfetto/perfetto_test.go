package perfetto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stalloc/internal/mem"
)

func write(t *testing.T, do func(*Trace)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.json")
	tr, err := Create(path, "train.py")
	if err != nil {
		t.Fatal(err)
	}
	do(tr)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func some(tr *Trace) {
	now := tr.base.Add(time.Second)
	tr.Memory(now, 0, mem.GiB, 3*mem.GiB)
	tr.Span(now, now.Add(250*time.Millisecond), 0, "step 3", Args{"hits": 5})
	tr.Mark(now, 1, "plan 2 serves", nil)
}

// TestTrace: curves, spans and marks as Chrome reads them.
func TestTrace(t *testing.T) {
	text := write(t, some)
	var events []event
	if err := json.Unmarshal([]byte(text), &events); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(events) != 5 {
		t.Fatalf("%+v", events)
	}
	memory, step, mark := events[2], events[3], events[4]
	if memory.Phase != "C" || memory.At != 1e6 || memory.Args["allocated"] != float64(mem.GiB) ||
		memory.Args["idle"] != float64(2*mem.GiB) {
		t.Errorf("%+v", memory)
	}
	if step.Phase != "X" || step.Took != 250e3 || step.Args["hits"] != 5.0 ||
		step.PID != os.Getpid() {
		t.Errorf("%+v", step)
	}
	if mark.Phase != "i" || mark.TID != 1 || mark.Scope != "t" {
		t.Errorf("%+v", mark)
	}
}

// TestManyAtOnce: lines stay whole, and a nil trace takes everything.
func TestManyAtOnce(t *testing.T) {
	text := write(t, func(tr *Trace) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 200 {
					some(tr)
				}
			})
		}
		wg.Wait()
	})
	var events []event
	if err := json.Unmarshal([]byte(text), &events); err != nil || len(events) != 2+8*200*3 {
		t.Errorf("%d events, %v", len(events), err)
	}
	var none *Trace
	none.Memory(time.Now(), 0, 1, 2)
	if none.Close() != nil {
		t.Error("a trace that is none has failed")
	}
}

// TestKilled: a trace that nobody closes is whole, whenever somebody looks.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	tr, err := Create(path, "train.py")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		some(tr) // ends with a mark, which does not wait
		var events []event
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &events)
		}
		if err != nil || len(events) != 2+3*(i+1) {
			t.Fatalf("%d events, %v in %s", len(events), err, text)
		}
	}
}

// TestBound: a file does not grow without end, and says so.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	tr, err := Create(path, "train.py")
	if err != nil {
		t.Fatal(err)
	}
	tr.most = 4096
	told := []error{}
	tr.Tell(func(err error) { told = append(told, err) })
	for range 1000 {
		some(tr)
	}
	if len(told) != 1 || !errors.Is(told[0], errFull) {
		t.Errorf("told %v", told)
	}
	if err := tr.Close(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) > 5000 || !json.Valid(text) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if err := tr.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "missing", "x"), ""); err == nil ||
		!strings.Contains(err.Error(), "another file") {
		t.Errorf("error %v", err)
	}
}

// TestToldLate: what failed before anybody asked is told, too.
func TestToldLate(t *testing.T) {
	tr, err := Create("/dev/full", "train.py")
	if err != nil {
		t.Fatal(err)
	}
	var told error
	if tr.Tell(func(err error) { told = err }); !errors.Is(told, syscall.ENOSPC) {
		t.Errorf("told %v", told)
	}
	if err := tr.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closed with %v", err)
	}
}

// TestMerge: our events come to lie where they happened, and the profiler's stay.
func TestMerge(t *testing.T) {
	ours := write(t, some)
	var events []event
	if err := json.Unmarshal([]byte(ours), &events); err != nil {
		t.Fatal(err)
	}
	var began int64
	fmt.Sscan(events[0].Args["nanoseconds"].(string), &began)
	base := began - 5e9
	long := strings.Repeat(" ", 3*window) // the list begins far behind, and so does the base
	const key = `"baseTimeNanoseconds": `
	across := strings.Repeat(" ", window-len("{"+key)-5) // behind five digits of the base
	for name, profiler := range map[string]string{
		"before":   fmt.Sprintf(`{"schemaVersion": 1, "baseTimeNanoseconds": %d, "traceEvents": [{"name": "gemm", "ph": "X", "ts": 7}], "x": 1}`, base),
		"behind":   fmt.Sprintf(`{"schemaVersion": 1,%s"traceEvents": [{"name": "gemm", "ph": "X", "ts": 7}],%s"baseTimeNanoseconds": %d}`, long, long, base),
		"across":   fmt.Sprintf(`{%s%s%d, "traceEvents": [{"name": "gemm", "ph": "X", "ts": 7}]}`, across, key, base),
		"no event": fmt.Sprintf(`{"baseTimeNanoseconds": %d, "traceEvents": [ ]}`, base),
	} {
		for _, cut := range []string{ours, ours[:len(ours)-30]} {
			var out bytes.Buffer
			if err := Merge(&out, strings.NewReader(profiler), strings.NewReader(cut)); err != nil {
				t.Fatal(err)
			}
			var merged struct{ TraceEvents []event }
			if err := json.Unmarshal(out.Bytes(), &merged); err != nil {
				t.Fatalf("%s: %v in %.300s", name, err, out.String())
			}
			found := map[string]float64{}
			for _, e := range merged.TraceEvents {
				found[e.Name] = e.At
			}
			if at := found["step 3"]; at < 6e6-1 || at > 6e6+1 {
				t.Errorf("%s: the step is at %v us", name, at)
			}
			if _, there := found["gemm"]; there != (name != "no event") || there &&
				found["gemm"] != 7 {
				t.Errorf("%s: the profiler's event is lost: %v", name, found)
			}
		}
	}
	for _, c := range []struct{ profiler, ours, want string }{
		{`{"x": 1}`, ours, "export_chrome_trace"}, {`{"traceEvents": [`, ours,
			"ends in its list"}, {`{"traceEvents": []}`, "{}",
			"the second is not a trace of stalloc"},
	} {
		if err := Merge(new(bytes.Buffer), strings.NewReader(c.profiler),
			strings.NewReader(c.ours)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.profiler, err, c.want)
		}
	}
}

// TestPipe: a trace is written over again and again, which a pipe cannot be. It is refused at
// once, and stays.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	trace, err := Create(path, "it")
	if !errors.Is(err, syscall.ESPIPE) || !strings.Contains(err.Error(), path) || trace != nil {
		t.Errorf("%v, %v", trace, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", info, err)
	}
}
