package trace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

func TestKindString(t *testing.T) {
	for kind, want := range map[Kind]string{
		0: "Kind(0)", Alloc: "alloc", FreeRequested: "free requested",
		FreeCompleted: "free completed",
		Mark:          "mark", RecordStream: "record stream", EmptyCache: "empty cache", EmptyCache +
			1: "Kind(7)",
	} {
		if got := kind.String(); got != want {
			t.Errorf("%d is %q, want %q", kind, got, want)
		}
	}
}

func TestBaseName(t *testing.T) {
	for path, want := range map[string]string{
		"a/b/megatron_vpp.r0.csv.gz": "megatron_vpp.r0", "x.csv": "x", "x.pickle": "x",
		"x.pickle.gz": "x",
		"x.pkl":       "x", "x.json": "x.json", "x.csv.csv": "x.csv",
	} {
		if got := BaseName(path); got != want {
			t.Errorf("BaseName(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestPeakLoad(t *testing.T) {
	trace := Trace{Events: []Event{
		{Kind: Alloc, ID: 0, Size: 1},    // 512
		{Kind: Alloc, ID: 1, Size: 513},  // 1536
		{Kind: Alloc, ID: 2, Size: 1024}, // 2560: the peak
		{Kind: FreeRequested, ID: 1},     // 1536, whenever its free completes
		{Kind: Alloc, ID: 3, Size: 0},    // 2048: a request of nothing takes a grain
		{Kind: FreeCompleted, ID: 1},
	}}
	if got := trace.PeakLoad(); got != 2560 {
		t.Errorf("peak load %d, want 2560", got)
	}
	if got := (&Trace{}).PeakLoad(); got != 0 {
		t.Errorf("peak load of nothing %d", got)
	}
}

func TestSteps(t *testing.T) {
	marks := func(names ...string) *Trace {
		trace := &Trace{}
		for _, name := range names {
			trace.Events = append(trace.Events, Event{Kind: Mark, Mark: name})
		}
		return trace
	}
	for _, c := range []struct {
		trace *Trace
		want  [][2]int
	}{
		{marks("setup", "step 0", "forward", "step 1", "end"), [][2]int{{2, 3}, {4, 4}}},
		{marks("step 0", "forward"), [][2]int{{1, 2}}},
		{marks("step 0", "end", "teardown"), [][2]int{{1, 1}}},
		{marks("setup", "stepping", "end"), nil},
		{marks(), nil},
	} {
		if got := c.trace.Steps(); !slices.Equal(got, c.want) {
			t.Errorf("%v: steps %v, want %v", c.trace.Events, got, c.want)
		}
	}
}

// randomTrace makes a legal trace of about n events.
func randomTrace(rng *rand.Rand, n int) *Trace {
	t := &Trace{Name: "random", Header: "workload random"}
	var lives, leaving []int64
	used := map[int64]bool{}
	take := func(from *[]int64) int64 {
		i := rng.IntN(len(*from))
		id := (*from)[i]
		*from = slices.Delete(*from, i, i+1)
		return id
	}
	for range n {
		e := Event{Micros: rng.Int64N(1 << 40)}
		switch choice := rng.IntN(10); {
		case choice < 4:
			e.Kind, e.ID = Alloc, rng.Int64N(int64(10*n))
			if rng.IntN(50) == 0 {
				e.ID = rng.Int64()
			}
			if used[e.ID] {
				continue
			}
			used[e.ID] = true
			e.Size, e.Stream = mem.Bytes(rng.Int64N(1<<rng.IntN(40))), mem.StreamID(rng.IntN(3))
			lives = append(lives, e.ID)
		case choice < 6 && len(lives) > 0:
			e.Kind, e.ID = FreeRequested, take(&lives)
			leaving = append(leaving, e.ID)
		case choice < 8 && len(leaving) > 0:
			e.Kind, e.ID = FreeCompleted, take(&leaving)
		case choice == 8 && len(lives) > 0:
			e.Kind, e.ID, e.Stream = RecordStream, lives[rng.IntN(len(lives))],
				mem.StreamID(rng.Uint64())
		case rng.IntN(2) == 0:
			e.Kind = EmptyCache
		default:
			e = Event{Kind: Mark, Mark: fmt.Sprintf("step %d é\xff", rng.IntN(9))}
		}
		t.Events = append(t.Events, e)
	}
	return t
}

// text is the trace in our own format.
func (t *Trace) text() []byte {
	b := fmt.Appendf(nil, "# %s\n", t.Header)
	for i := range t.Events {
		b, _ = t.Events[i].AppendText(b)
		b = append(b, '\n')
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := 0; n <= 3000; n = 2*n + 1 {
		want := randomTrace(rng, n)
		for name, data := range map[string][]byte{"random.csv": want.text(),
			"random.csv.gz": zipped(want.text())} {
			path := filepath.Join(t.TempDir(), name)
			writeFile(t, path, data)
			got, err := ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if i := firstDifference(got.Events, want.Events); i >= 0 || got.Name != want.Name ||
				got.Header != want.Header {
				t.Fatalf("%s of %d events: event %d differs, name %q, header %q", name, n, i,
					got.Name, got.Header)
			}
		}
	}
}

// TestRewriteIsIdentical: a recording that is read and written is the same
// text, so nothing of it is lost.
func TestRewriteIsIdentical(t *testing.T) {
	want, err := os.ReadFile("testdata/snapshot.csv")
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadFile("testdata/snapshot.csv")
	if err != nil {
		t.Fatal(err)
	}
	if got := read.text(); !bytes.Equal(got, want) {
		t.Errorf("rewritten: %d bytes, want %d", len(got), len(want))
	}
}
