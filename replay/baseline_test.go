package replay

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

var config = Config{Capacity: 80 * mem.GiB, FragLimit: DefaultFragLimit}

// TestMeasured replays a plain recording and one with frees that wait for
// other streams, and compares with what PyTorch reported for the same runs.
func TestMeasured(t *testing.T) {
	folder := filepath.Join("..", "tests", "traces")
	text, err := os.ReadFile(filepath.Join(folder, "measured.json"))
	if err != nil {
		t.Fatal(err)
	}
	var measured map[string]map[string]struct {
		Reserved float64 `json:"reserved_gib"`
	}
	if err := json.Unmarshal(text, &measured); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"llama_naive", "vit_streams"} {
		tr, err := trace.ReadFile(filepath.Join(folder, name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for allocator, tolerance := range map[string]mem.Bytes{"expandable": mem.MiB,
			"native": 512 * mem.MiB} {
			got := replayOne(t, allocator, tr, config)
			want := mem.Bytes(measured[name][allocator].Reserved * float64(mem.GiB))
			if off := max(got.PeakReserved-want, want-got.PeakReserved); off > tolerance {
				t.Errorf("%s under %s: peak reserved %v, measured %v", name, allocator,
					got.PeakReserved, want)
			}
			if got.PeakLoad != tr.PeakLoad() || got.PeakReserved < got.PeakLoad || got.OOM {
				t.Errorf("%s under %s: %+v", name, allocator, got)
			}
		}
	}
}

func replayOne(t *testing.T, allocator string, tr *trace.Trace, c Config) Result {
	t.Helper()
	a, err := Lookup(allocator)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Replay(context.Background(), tr, c, nil)
	if err != nil {
		t.Fatalf("%s under %s: %v", tr.Name, allocator, err)
	}
	return r
}

// TestSteadyCallsBeginWithTheThirdStep: one 2 MiB segment in each of four steps
// and one after the end, and in the first a block as large as none that follows.
func TestSteadyCallsBeginWithTheThirdStep(t *testing.T) {
	tr := script(t, "grow", `
# workload grow
# step 0
a,9,209715200,0,1
r,9,1
f,9,1
a,0,1048576,0,1
a,1,1048576,0,1
# step 1
a,2,1048576,0,2
a,3,1048576,0,2
# step 2
a,4,1048576,0,3
a,5,1048576,0,3
# step 3
a,6,1048576,0,4
a,7,1048576,0,4
# end
a,8,1048576,0,5
`)
	got := replayOne(t, "native", tr, config)
	if got.DriverCalls != 6 || got.SteadyDriverCalls != 2 || got.Allocator != "native" ||
		got.Mode != Cold {
		t.Errorf("got %+v", got)
	}
	tr.Events = tr.Events[:9]
	if got := replayOne(t, "native", tr, config); got.DriverCalls != 3 ||
		got.SteadyDriverCalls != 0 {
		t.Errorf("two steps: got %+v", got)
	}
}

// TestWaitingFrees: memory whose free waits for another stream serves nothing
// before the wait is over, however the trace tells of it.
func TestWaitingFrees(t *testing.T) {
	for _, c := range []struct {
		name, events string
		want         mem.Bytes
	}{
		{"at once", "r,0,2\nf,0,2\na,1,20971520,0,3", 20 * mem.MiB},
		{"deferred", "r,0,2\na,1,20971520,0,3\nf,0,4", 40 * mem.MiB},
		{"deferred, over in time", "r,0,2\na,1,512,0,2\nf,0,2\na,2,20971520,0,3", 22 * mem.MiB},
		{"deferred, then flushed", "r,0,2\ne,2\nf,0,2\na,1,20971520,0,3", 20 * mem.MiB},
		{"never over", "r,0,2\na,1,20971520,0,3", 40 * mem.MiB},
		{"recorded", "s,0,7,1\nr,0,2\na,1,20971520,0,3\nf,0,4", 40 * mem.MiB},
		{"recorded on its own stream", "s,0,0,1\nr,0,2\nf,0,2\na,1,20971520,0,3", 20 * mem.MiB},
		{"recorded, over in time", "s,0,7,1\nr,0,2\nf,0,2\na,1,20971520,0,3", 20 * mem.MiB},
	} {
		for _, allocator := range []string{"native", "expandable", "gmlake", "paper"} {
			tr := script(t, "wait", "# workload wait\na,0,20971520,0,1\n"+c.events)
			if got := replayOne(t, allocator, tr, config); got.PeakReserved != c.want {
				t.Errorf("%s under %s: peak reserved %v, want %v", c.name, allocator,
					got.PeakReserved, c.want)
			}
		}
	}
}

func TestFullDevice(t *testing.T) {
	tr := script(t, "big", "# workload big\na,0,20971520,0,1\na,1,20971520,0,2\na,2,512,0,3")
	for _, allocator := range []string{"native", "expandable", "gmlake", "paper"} {
		got := replayOne(t, allocator, tr, Config{Capacity: 32 * mem.MiB})
		if !got.OOM || got.Requests != 2 || got.PeakLoad != 20*mem.MiB ||
			got.PeakReserved != 20*mem.MiB {
			t.Errorf("%s: %+v", allocator, got)
		}
	}
}

func TestLookup(t *testing.T) {
	if _, err := Lookup("magic"); err == nil || !strings.Contains(err.Error(),
		"native, expandable, gmlake, paper") {
		t.Errorf("got %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	a, err := Lookup("native")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Replay(context.Background(), &trace.Trace{}, Config{Capacity: -1},
		nil); err == nil {
		t.Error("a device of -1 bytes is accepted")
	}
}

func TestJSON(t *testing.T) {
	text, err := json.Marshal(Result{Trace: "t", Allocator: "a", Mode: Warm, OOM: true})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"trace":"t","allocator":"a","mode":"warm","requests":0,"hits":0,"misses":0,` +
		`"peak_load_bytes":0,"peak_reserved_bytes":0,"fragmentation":0,"driver_calls":0,` +
		`"driver_time_us":0,"steady_driver_calls":0,"steady_driver_time_us":0,"steady_time_us":0,"retries":0,"steady_retries":0,"oom":true}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
