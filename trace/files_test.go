package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const recorded = "../tests/traces"

// recordedTraces says what the recordings hold: their lines less the header.
var recordedTraces = []struct {
	name                 string
	events, steps, peaks int
}{
	{"fine_moe", 115196, 5, 1},
	{"gpt2_naive", 66433, 4, 1},
	{"hf_trainer", 139711, 19, 0},
	{"llama_lora", 94868, 5, 1},
	{"llama_naive", 24461, 4, 1},
	{"llama_recompute", 47717, 4, 1},
	{"llama_varlen", 30372, 5, 1},
	{"llama_vpp", 133170, 4, 1},
	{"megatron_dense.r0", 204692, 8, 0},
	{"megatron_moe.r0", 430221, 10, 0},
	{"megatron_moer.r0", 162451, 4, 0},
	{"megatron_vpp.r0", 128057, 4, 0},
	{"mixtral_moe", 91260, 5, 1},
	{"multiscale_resnet", 21859, 5, 1},
	{"packed_varlen", 32601, 5, 1},
	{"pyg_gat", 45400, 36, 0},
	{"qwen2moe_recompute", 588470, 5, 1},
	{"vit_streams", 32604, 5, 1},
}

// TestRecordedTraces reads every recording and compares its peak load with the
// peak that PyTorch itself reported for the run.
func TestRecordedTraces(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(recorded, "measured.json"))
	if err != nil {
		t.Fatal(err)
	}
	var measured map[string]struct {
		Expandable struct {
			Allocated float64 `json:"allocated_gib"`
			Requested float64 `json:"requested_gib"`
		} `json:"expandable"`
	}
	if err := json.Unmarshal(raw, &measured); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(recorded, "*.csv.gz"))
	if err != nil || len(files) != len(recordedTraces) {
		t.Fatalf("%d recordings, want %d (%v)", len(files), len(recordedTraces), err)
	}
	for _, c := range recordedTraces {
		got, err := ReadFile(filepath.Join(recorded, c.name+".csv.gz"))
		if err != nil {
			t.Error(err)
			continue
		}
		if got.Name != c.name || len(got.Events) != c.events || len(got.Steps()) != c.steps {
			t.Errorf("%s: read %q with %d events and %d steps, want %d and %d",
				c.name, got.Name, len(got.Events), len(got.Steps()), c.events, c.steps)
		}
		m, ok := measured[c.name]
		if ok != (c.peaks == 1) {
			t.Errorf("%s: in measured.json: %v", c.name, ok)
		}
		gib := float64(got.PeakLoad()) / (1 << 30)
		t.Logf("%s: %d events, peak load %.3f GiB, measured %.3f", c.name, len(got.Events), gib,
			m.Expandable.Allocated)
		if ok && (math.Abs(gib-m.Expandable.Allocated) > 0.01 ||
			math.Abs(gib-m.Expandable.Requested) > 0.01) {
			t.Errorf("%s: peak load %.4f GiB, measured %.3f allocated, %.3f requested",
				c.name, gib, m.Expandable.Allocated, m.Expandable.Requested)
		}
	}
}

func TestSnapshotFixtures(t *testing.T) {
	want, err := ReadFile("testdata/snapshot.csv")
	if err != nil {
		t.Fatal(err)
	}
	// The fixture's last mark is the number of frees the ring had orphaned.
	last := want.Events[len(want.Events)-1].Mark
	want.Events = want.Events[:len(want.Events)-1]
	for _, file := range []string{"snapshot.p2.pickle.gz", "snapshot.p3.pickle.gz",
		"snapshot.p4.pickle.gz", "snapshot.p5.pickle.gz", "slow.p4.pickle"} {
		got, err := ReadFile("testdata/" + file)
		if err != nil {
			t.Error(err)
			continue
		}
		if i := firstDifference(got.Events, want.Events); i >= 0 {
			t.Errorf("%s: event %d of %d, %d differs", file, i, len(got.Events), len(want.Events))
		}
		if s := got.Skipped; s.Frees == 0 || last != fmt.Sprintf("skipped %d", s.Frees) ||
			s.Blocks != 0 || s.Lost != 0 {
			t.Errorf("%s: skipped %+v, want %q", file, s, last)
		}
		if name := BaseName(file); got.Name != name ||
			got.Header != "workload "+name+" snapshot device 1" {
			t.Errorf("%s: name %q, header %q", file, got.Name, got.Header)
		}
	}
}

// firstDifference returns the first index at which a and b differ, or -1.
func firstDifference(a, b []Event) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if slices.Equal(a, b) {
		return -1
	}
	return min(len(a), len(b))
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
