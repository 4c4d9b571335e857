package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// script reads a trace from its text.
func script(t *testing.T, name, text string) *trace.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".csv")
	if err := os.WriteFile(path, []byte(strings.TrimSpace(text)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const twoSteps = `
# workload tiny
# setup
a,0,1000,0,1
# step 0
a,1,2048,0,2
a,2,700,7,3
s,1,7,4
r,1,5
# backward
r,2,6
f,2,6
# step 1
f,1,7
a,3,0,0,8
e,9
r,3,10
f,3,10
# end
r,0,11
f,0,11
`

// recorder is a target that writes down what it is told.
type recorder struct {
	told   []string
	full   int64  // id whose request finds the device full; -1 for none
	failed error  // what any later request fails with
	done   []Done // at each boundary
	steps  int    // passed
	counts Counts
}

func (r *recorder) note(format string, args ...any) {
	r.told = append(r.told, fmt.Sprintf(format, args...))
}

func (r *recorder) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	r.note("alloc %d %d on %d", id, size, stream)
	if id == r.full {
		return fmt.Errorf("request %d: %w", id, &driver.Error{Call: "cuMemCreate",
			Code: driver.CodeOutOfMemory})
	}
	return r.failed
}
func (r *recorder) RecordStream(id int64, stream mem.StreamID) {
	r.note("record %d on %d", id,
		stream)
}
func (r *recorder) FreeRequested(id int64, deferred bool) {
	r.note("free %d %v", id,
		deferred)
}
func (r *recorder) FreeCompleted(id int64) { r.note("done %d", id) }
func (r *recorder) EmptyCache()            { r.note("empty") }
func (r *recorder) Step() Done             { r.note("step"); r.steps++; return r.done[r.steps-1] }
func (r *recorder) Finish() (Counts, error) {
	r.note("finish")
	return r.counts,
		nil
}

func TestRunTellsEveryEvent(t *testing.T) {
	tr := script(t, "tiny", twoSteps)
	target := &recorder{
		full: -1, done: []Done{{1, 1.5, 0}, {3, 4.25, 1}, {7, 5.5, 4}},
		counts: Counts{Hits: 1, Misses: 2, PeakReserved: 8192, DriverCalls: 8, DriverTimeUS: 6.75,
			Retries: 5},
	}
	var seen [][2]int
	got, err := Run(context.Background(), tr, target,
		func(done, total int) { seen = append(seen, [2]int{done, total}) })
	if err != nil {
		t.Fatal(err)
	}
	told := []string{
		"alloc 0 1000 on 0", "step", "alloc 1 2048 on 0", "alloc 2 700 on 7", "record 1 on 7",
		"free 1 true", "free 2 false", "done 2", "step", "done 1", "alloc 3 0 on 0", "empty",
		"free 3 false", "done 3", "step", "free 0 false", "done 0", "finish",
	}
	if !slices.Equal(target.told, told) {
		t.Errorf("told\n%q\nwant\n%q", target.told, told)
	}
	want := Result{
		Trace: "tiny", Mode: Cold, Requests: 4, Hits: 1, Misses: 2,
		PeakLoad: 1024 + 2048 + 1024, PeakReserved: 8192, Fragmentation: 0.5,
		DriverCalls: 8, DriverTimeUS: 6.75, Retries: 5,
		Steps: []Step{
			{TimeUS: 6 - 1, DriverCalls: 2, DriverTimeUS: 2.75, Retries: 1, PeakLoad: 4096},
			{TimeUS: 10 - 6, DriverCalls: 4, DriverTimeUS: 1.25, Retries: 3, PeakLoad: 1536},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.PeakLoad != tr.PeakLoad() {
		t.Errorf("peak load %v, the trace's own is %v", got.PeakLoad, tr.PeakLoad())
	}
	if last := [2]int{len(tr.Events), len(tr.Events)}; !slices.Equal(seen,
		[][2]int{{0, last[1]}, last}) {
		t.Errorf("progress reports %v", seen)
	}
}

func TestRunStopsAtAFullDevice(t *testing.T) {
	target := &recorder{full: 2, done: make([]Done, 3), counts: Counts{PeakReserved: 4096}}
	got, err := Run(context.Background(), script(t, "tiny", twoSteps), target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !got.OOM || got.Requests != 3 || got.PeakLoad != 3072 || got.Fragmentation != 0.25 {
		t.Errorf("got %+v", got)
	}
	if last := target.told[len(target.told)-2:]; !slices.Equal(last,
		[]string{"alloc 2 700 on 7", "finish"}) {
		t.Errorf("the run went on: %q", last)
	}
}

func TestRunReturnsOtherErrors(t *testing.T) {
	broken := errors.New("lost block")
	target := &recorder{full: -1, failed: broken}
	_, err := Run(context.Background(), script(t, "tiny", twoSteps), target, nil)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("got error %v", err)
	}
	if target.told[len(target.told)-1] != "finish" {
		t.Error("a broken run is not finished")
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var b strings.Builder
	b.WriteString("# workload long\n")
	for id := range 3 * reportEvery {
		fmt.Fprintf(&b, "a,%d,512,0,0\n", id)
	}
	target := &recorder{full: -1}
	got, err := Run(ctx, script(t, "long", b.String()), target, func(done, _ int) {
		if done == reportEvery {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v", err)
	}
	if got.Requests == 0 || got.Requests > 2*reportEvery {
		t.Errorf("stopped after %d requests, wanted about %d", got.Requests, reportEvery)
	}
}

// TestTheSteadyPart: steps as multiples of a load.
func TestTheSteadyPart(t *testing.T) {
	for steps, want := range map[string]int{
		"": 0, "a": 1, "aa": 2, "aaaa": 2, // after the second step
		"baaa": 2, "abaa": 2, "aaba": 3, "aaab": 4, // and after the step of the peak
	} {
		var r Result
		for _, c := range steps {
			s := Step{PeakLoad: 100 * mem.MiB}
			if c == 'b' {
				s.PeakLoad = 102 * mem.MiB
			}
			r.Steps = append(r.Steps, s)
		}
		if got := r.steadyFrom(); got != want {
			t.Errorf("%q: from step %d, expected %d", steps, got, want)
		}
	}
}
