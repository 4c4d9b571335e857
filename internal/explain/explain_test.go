package explain

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"stalloc/internal/mem"
)

// TestTexts prints what testdata/texts.txt has figures for; -rewrite renews it.
func TestTexts(t *testing.T) {
	datadriven.RunTest(t, filepath.Join("testdata", "texts.txt"),
		func(t *testing.T, d *datadriven.TestData) string {
			var in struct {
				Figures
				Why Why
			}
			if err := json.Unmarshal([]byte(d.Input), &in); err != nil {
				d.Fatalf(t, "%v", err)
			}
			in.Figures.Why = in.Why
			if d.Cmd == "table" {
				return in.Table()
			}
			return in.Refusal()
		})
}

// TestNeverAWrongReason: for figures of any kind, what is said follows from them.
func TestNeverAWrongReason(t *testing.T) {
	for seed := range uint64(5_000) {
		f := random(rand.New(rand.NewPCG(seed, 17)))
		reason, text := f.Reason(), f.Refusal()
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("seed %d: %d columns: %s", seed, n, line)
			}
		}
		if strings.Contains(text, "limit") != (f.Limit > 0) && f.Limit == 0 {
			t.Fatalf("seed %d: there is no limit:\n%s", seed, text)
		}
		if strings.Contains(reason, "no memory left") && f.Why != Full && f.Why != Limit {
			t.Fatalf("seed %d: %s", seed, reason)
		}
		if strings.Contains(reason, "than the device has") && f.Asked <= f.Total {
			t.Fatalf("seed %d: %s", seed, reason)
		}
		short, is := f.Short()
		advice := strings.Join(f.Advice(), "\n")
		if strings.Contains(advice, "that is enough") {
			if h, ok := f.largestOther(); !ok || !is || h.Used < short {
				t.Fatalf("seed %d: %s\n%+v", seed, advice, f)
			}
		}
		if strings.Contains(advice, "less: a smaller batch") && !is {
			t.Fatalf("seed %d: %s\n%+v", seed, advice, f)
		}
	}
}

func random(r *rand.Rand) Figures {
	some := func(most mem.Bytes) mem.Bytes {
		if r.IntN(3) == 0 {
			return 0
		}
		return mem.Bytes(r.Int64N(int64(most)))
	}
	f := Figures{
		Asked: some(100 * mem.GiB), Why: Why(r.IntN(6)), Code: r.IntN(800),
		Stream: mem.StreamID(r.Uint64()),
		Total:  some(80 * mem.GiB), Limit: some(80 * mem.GiB), LateFences: r.IntN(2),
		Blocks: r.IntN(9),
	}
	f.Free = some(f.Total + 1)
	f.Reserved = some(80 * mem.GiB)
	f.Allocated = some(f.Reserved + 1)
	f.Pending = some(f.Reserved - f.Allocated + 1)
	f.Whole = some(f.Idle() + 1)
	f.Private = some(f.Idle() + 1)
	f.LargestGap = some(f.Idle() + 1)
	f.NoStitching = r.IntN(2) == 0
	for range r.IntN(8) {
		f.Sizes = append(f.Sizes, Size{some(2 * mem.GiB), r.IntN(9)})
		f.Phases = append(f.Phases, Phase{strings.Repeat("step ", 1+r.IntN(20)), 1, some(mem.GiB),
			r.IntN(3) == 0})
		f.Holders = append(f.Holders, Holder{r.IntN(1 << 22), strings.Repeat("x", r.IntN(60)),
			some(mem.GiB) - 1, r.IntN(2) == 0})
	}
	if r.IntN(2) == 0 {
		f.Note = strings.Repeat("NVML says so. ", r.IntN(9))
		f.HoldersError = strings.Repeat("a reason ", r.IntN(40))
	}
	return f
}

// TestReport: a program can read the figures back from the last line.
func TestReport(t *testing.T) {
	f := random(rand.New(rand.NewPCG(7, 17)))
	f.Asked, f.Why = mem.GiB, Full
	report := string(f.Report("llama, rank 3"))
	if !strings.HasPrefix(report, "llama, rank 3\n\nthe device has no memory left.\n") {
		t.Errorf("%.80s", report)
	}
	lines := strings.Split(strings.TrimSpace(report), "\n")
	var back Figures
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &back); err != nil {
		t.Fatal(err)
	}
	back.Why = f.Why
	if !reflect.DeepEqual(back, f) {
		t.Errorf("%+v came back as %+v", f, back)
	}
}

func TestReportPath(t *testing.T) {
	if got := ReportPath("/tmp/oom-%r-%p-%d-100%%.txt", "3", 42,
		1); got != "/tmp/oom-3-42-1-100%.txt" {
		t.Error(got)
	}
	if got := ReportPath("oom.%r", "", 42, 0); got != "oom.0" {
		t.Error(got)
	}
}
