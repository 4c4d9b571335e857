package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

func findingsOf(tr *trace.Trace) map[string]Finding {
	all := make(map[string]Finding)
	for _, f := range newLedger(tr).findings(tr.Stacks) {
		all[f.Kind] = f
	}
	return all
}

// life is where a block of a recording begins and ends, told without a ledger.
type life struct {
	begin, end int
	size       mem.Bytes
}

// naive returns the lives, the peak's event and its step.
func naive(tr *trace.Trace) (lives []*life, peak int, step, before [2]int) {
	live := make(map[int64]*life)
	var load, most mem.Bytes
	for i, e := range tr.Events {
		switch e.Kind {
		case trace.Alloc:
			b := &life{i, len(tr.Events), mem.Round(e.Size)}
			lives, live[e.ID] = append(lives, b), b
			if load += b.size; load > most {
				most, peak = load, i
			}
		case trace.FreeCompleted:
			live[e.ID].end = i
			load -= live[e.ID].size
		}
	}
	for _, s := range tr.Steps() {
		if s[0] <= peak {
			step, before = s, step
		}
	}
	return lives, peak, step, before
}

// TestFindings: what the page says of a dense model, a model of experts and an image model is
// what a count of their lives gives, and nothing is said of them that is not so.
func TestFindings(t *testing.T) {
	for name, kinds := range map[string]string{"llama_naive": "across logits",
		"mixtral_moe": "across logits", "apart/images": "across gradients"} {
		tr := readRun(t, traceFile(name))
		lives, peak, step, before := naive(tr)
		want := map[string]mem.Bytes{}
		var logits []mem.Bytes
		for _, b := range lives {
			switch {
			case b.begin > peak || b.end <= peak || b.end >= step[1]:
			case b.begin >= step[0]:
				if margin := (step[1] - step[0]) / 20; peak-b.begin >= margin &&
					b.end-peak > margin {
					want[Across] += b.size
				} else if peak-b.begin < margin && b.end-peak <= margin {
					logits = append(logits, b.size)
				}
			case b.begin >= before[0]:
				want[Gradients] += b.size
			}
		}
		for _, size := range logits {
			if 2*size >= slices.Max(logits) {
				want[Logits] += size
			}
		}
		found := findingsOf(tr)
		for kind, f := range found {
			if f.Bytes != want[kind] ||
				!strings.HasPrefix(f.Text, want[kind].String()+" at the peak (") || f.Do == "" {
				t.Errorf("%s: %+v, a count gives %v", name, f, want[kind])
			}
		}
		if len(found) != len(strings.Fields(kinds)) || found[Across].Bytes == 0 ||
			strings.Contains(kinds, Gradients) != (found[Gradients].Bytes > 0) {
			t.Errorf("%s: %+v", name, found)
		}
		_, page, _ := made(t, traceFile(name), options)
		if words := strings.SplitAfter(found[Across].Text,
			" at the peak")[0]; !strings.Contains(page, words) ||
			!strings.Contains(page, "torch.utils.checkpoint") {
			t.Errorf("%s: the page does not say %q", name, words)
		}
	}
}

// TestOptimizer: a peak in the optimizer's step is made by what that step requests, and by no
// logits.
func TestOptimizer(t *testing.T) {
	text := "# workload copies\n# setup\na,0,104857600,0,0\n# step 0\n# optimizer 0\na,1,1048576,0,1\nr,1,1\nf,1,1\n# step 1\n# forward\na,2,31457280,0,2\n" +
		"# optimizer 1\na,3,52428800,0,3\na,4,20971520,0,4\nr,3,5\nf,3,5\nr,4,5\nf,4,5\nr,2,5\nf,2,5\n# end\n"
	path := filepath.Join(t.TempDir(), "copies.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found := findingsOf(readRun(t, path))
	if f := found[Optimizer]; f.Bytes != 70*mem.MiB ||
		!strings.Contains(f.Text,
			"70.00 MiB at the peak (2 blocks) are made by the optimizer's step") ||
		found[Logits].Bytes > 0 {
		t.Errorf("%+v", found)
	}
}

// TestLeak: a block that is kept in every step is found, with its bytes, and none is seen in
// the recording as it is.
func TestLeak(t *testing.T) {
	tr := readRun(t, traceFile("pyg_gat"))
	if f, ok := findingsOf(tr)[Leak]; ok {
		t.Errorf("%+v", f)
	}
	leaking := *tr
	leaking.Events = nil
	id := int64(1 << 40)
	for _, e := range tr.Events {
		leaking.Events = append(leaking.Events, e)
		if e.Kind == trace.Mark && strings.HasPrefix(e.Mark, "step ") {
			leaking.Events = append(leaking.Events, trace.Event{Kind: trace.Alloc, ID: id,
				Size: 7 * mem.MiB})
			id++
		}
	}
	f := findingsOf(&leaking)[Leak]
	if f.Bytes != 33*7*mem.MiB ||
		!strings.HasPrefix(f.Text,
			"Live memory rises by 7.00 MiB in every step: 231.00 MiB (33 blocks) are never freed; 231.00 MiB of it are 33 × 7.00 MiB, requested ") {
		t.Errorf("%+v", f)
	}
}

// TestLeakOfASnapshot: it has no steps, and stacks that say where.
func TestLeakOfASnapshot(t *testing.T) {
	f := findingsOf(readRun(t, filepath.Join("testdata", "leak.pickle")))[Leak]
	if f.Bytes != 10*mem.MiB ||
		!strings.Contains(f.Text, "rises by 2.00 MiB in every eighth of the recording") ||
		!strings.Contains(f.Text, "10 × hooks.py:5 collect") {
		t.Errorf("%+v", f)
	}
}

// TestStream: a stream that is at its peak when the run is not keeps what it needed then.
func TestStream(t *testing.T) {
	for then, want := range map[int]mem.Bytes{0: 30 * mem.MiB, 10: 20 * mem.MiB, 30: 0} {
		text := "# workload streams\n# step 0\na,0,31457280,1,1\nr,0,2\nf,0,2\n"
		if then > 0 {
			text += fmt.Sprintf("a,1,%d,1,3\n", then<<20)
		}
		path := filepath.Join(t.TempDir(), "streams.csv")
		if err := os.WriteFile(path, []byte(text+"a,2,104857600,0,4\n# end\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := findingsOf(readRun(t, path))[Stream]
		if f.Bytes != want || want > 0 &&
			!strings.Contains(f.Text,
				fmt.Sprintf("stream 1, which holds %v at the run's peak and 30.00 MiB at its own",
					mem.Bytes(then)*mem.MiB)) {
			t.Errorf("%d: %+v", then, f)
		}
	}
}
