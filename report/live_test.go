package report

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// liveLog is what a run writes of itself: two steps, a plan after the first.
const liveLog = `[
{"name":"stalloc_base_time","ph":"M","ts":0,"pid":7,"tid":0,"args":{"nanoseconds":"1700000000000000000"}},
{"name":"device 0 memory","ph":"C","ts":1000,"pid":7,"tid":0,"args":{"allocated":1048576,"idle":1048576}},
{"name":"device 1 memory","ph":"C","ts":1000,"pid":7,"tid":1,"args":{"allocated":9,"idle":0}},
{"name":"device 0 memory","ph":"C","ts":2000,"pid":7,"tid":0,"args":{"allocated":3145728,"idle":1048576}},
{"name":"step 0","ph":"X","ts":1500,"dur":1000,"pid":7,"tid":0,"args":{"requests":10,"hits":0}},
{"name":"step 0","ph":"X","ts":1500,"dur":1000,"pid":7,"tid":1,"args":{"requests":70,"hits":0}},
{"name":"plan 1 <serves>","ph":"i","s":"t","ts":2600,"pid":7,"tid":0},
{"name":"device 0 memory","ph":"C","ts":3000,"pid":7,"tid":0,"args":{"allocated":2097152,"idle":0}},
{"name":"step 1","ph":"X","ts":2500,"dur":1000,"pid":7,"tid":0,"args":{"requests":10,"hits":9,"peak_allocated":3146752}},
{"name":"step 2","ph":"X","ts":35`

func TestLiveReport(t *testing.T) {
	for name, log := range map[string]string{
		"cut":   liveLog,
		"whole": liveLog[:strings.LastIndex(liveLog, ",\n")] + "\n]\n",
		"object": `{"schemaVersion": 1, "traceEvents": ` +
			liveLog[:strings.LastIndex(liveLog, ",\n")] + "]}",
	} {
		path := filepath.Join(t.TempDir(), "run.json")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		d, page, u := made(t, path, options)
		if d.Kind != Live || d.Name != "run" || d.Peak.Load != 3*mem.MiB+1024 ||
			d.Ours().Reserved != 4*mem.MiB {
			t.Errorf("%s: %+v", name, d)
		}
		if a := d.Ours(); a.Requests != 20 || a.Hits != 9 {
			t.Errorf("%s: %d hits of %d requests, want 9 of 20", name, a.Hits, a.Requests)
		}
		var steps []string
		for _, s := range d.Steps {
			steps = append(steps, s.Name)
		}
		if !slices.Equal(steps, []string{setUp, "step 0", "step 1"}) ||
			d.Steps[d.Peak.Step].Name != "step 0" {
			t.Errorf("%s: steps %q, the peak in %d", name, steps, d.Peak.Step)
		}
		if !slices.Equal(u.columns["micros"], []int{0, 1000, 2000}) ||
			!slices.Equal(u.columns["curve.load"], []int{2048, 6144, 4096}) {
			t.Errorf("%s: micros %d, load %d", name, u.columns["micros"], u.columns["curve.load"])
		}
		if !strings.Contains(page, "plan 1 &lt;serves&gt;") || len(d.Notes) != 1 ||
			d.Notes[0].Step != "step 1" {
			t.Errorf("%s: notes %+v", name, d.Notes)
		}
		if _, err := Load(context.Background(), path, Options{Device: 3}); err == nil ||
			!strings.HasSuffix(err.Error(),
				"run.json has no device 3: choose from [0 1] with --device") {
			t.Errorf("%s: device 3: %v", name, err)
		}
	}
}

func TestOtherJSONIsNoLog(t *testing.T) {
	for _, text := range []string{"{}", "[]", `{"traceEvents": 5}`,
		`[{"name": "kernel", "ph": "X", "args": {"device": "a"}}]`, "[1, 2]"} {
		path := filepath.Join(t.TempDir(), "other.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(context.Background(), path, options); err == nil ||
			!strings.Contains(err.Error(), "trace:FILE") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
