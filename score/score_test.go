package score

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// asSimulator is set in the environment of this test's own binary where it is to be a simulator:
// of what kind.
const asSimulator = "STALLOC_TEST_SIMULATOR"

func TestMain(m *testing.M) {
	kind, args := os.Getenv(asSimulator), os.Args
	if kind == "" {
		os.Exit(m.Run())
	}
	if err := simulate(kind, args[len(args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func read(t testing.TB, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const tiny = "../cmd/stalloc/testdata/traces/tiny.csv"

func scored(t *testing.T, kind, recording string, c replay.Config, limit time.Duration) (
	replay.Result, *Simulator, error) {
	t.Helper()
	t.Setenv(asSimulator, kind)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(kind, []string{self, recording}, limit)
	if err != nil {
		t.Fatal(err)
	}
	s.Stitched = kind == "gmlake" || kind == "stalloc" || kind == "stitched"
	r, err := s.Allocator().Replay(context.Background(), read(t, recording), c, nil)
	return r, s, err
}

// TestOurs: through the protocol each allocator scores what a replay says, to the byte.
func TestOurs(t *testing.T) {
	for _, recording := range []string{tiny, "../tests/traces/llama_naive.csv.gz",
		"../tests/traces/vit_streams.csv.gz", "../tests/traces/megatron_vpp.r0.csv.gz"} {
		tr := read(t, recording)
		for _, a := range replay.Allocators {
			c := replay.Config{Capacity: 80 * mem.GiB}
			if a.Name == "native" {
				c.Capacity = tr.PeakLoad() // which it cannot do with
			}
			got, s, err := scored(t, a.Name, recording, c, DefaultTimeout)
			if err != nil {
				t.Errorf("%s on %s: %v", a.Name, tr.Name, err)
				continue
			}
			c.FragLimit = replay.DefaultFragLimit
			want, err := a.Replay(context.Background(), tr, c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if same(got) != same(want) || !want.OOM && !s.Counted {
				t.Errorf("%s on %s: %s, a replay says %s", a.Name, tr.Name, same(got), same(want))
			}
		}
	}
}

// same is what is to be the same.
func same(r replay.Result) string {
	text := fmt.Sprint(r.Trace, r.Requests, r.PeakLoad, r.OOM)
	if r.OOM { // what it had reserved when it said full is not told
		return text
	}
	text += fmt.Sprint(" ", r.PeakReserved, r.Fragmentation, r.Retries, r.DriverTimeUS,
		r.SteadyRetries, r.SteadyDriverTimeUS, r.SteadyTimeUS, r.AtFullSpeed())
	for _, s := range r.Steps {
		text += fmt.Sprint(" ", s.TimeUS, s.DriverTimeUS, s.Retries, s.PeakLoad)
	}
	return text
}

// TestSmallest: the least device is that of a replay.
func TestSmallest(t *testing.T) {
	tr := read(t, "../tests/traces/multiscale_resnet.csv.gz")
	t.Setenv(asSimulator, "expandable")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New("", []string{self, "../tests/traces/multiscale_resnet.csv.gz"}, DefaultTimeout)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := replay.Lookup("expandable")
	for _, from := range []mem.Bytes{9 * mem.GiB} {
		got, err := s.Allocator().Smallest(context.Background(), tr, replay.Config{}, from, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := a.Smallest(context.Background(), tr, replay.Config{}, from, nil)
		if err != nil || got != want {
			t.Errorf("%+v, a replay says %+v, %v", got, want, err)
		}
	}
}

// TestHostile: whatever a simulator does, the error says what, at which event and line, in time.
func TestHostile(t *testing.T) {
	for kind, want := range map[string][]string{
		"dies":     {`event 1, "# step 0"`, "has ended, exit status 3", `it said "cannot go on"`},
		"hangs":    {"does not answer for 1s", "--timeout"},
		"deaf":     {"reads nothing for 5s"},
		"late":     {"does not answer for 1s"},
		"garbage":  {`line 1 of the simulator's output`, `got "\x00\xff what?"`},
		"endless":  {"expected an answer of at most 4096 bytes", `"xxxxxxxx`},
		"cut":      {"expected a whole line", `got "12"`},
		"closes":   {"closed its standard input or output"},
		"overlaps": {"event 3", "block 1 at [0, 1024) overlaps block 0 at [0, 512), which is live"},
		"odd":      {"a multiple of 512, got 100"},
		"high":     {"below 2^63"},
		"negative": {`got "-512,2097152"`},
		"huge":     {`got "99999999999999999999`},
		"short":    {"bytes are reserved, and live blocks touch pages of 2 MiB"},
		"stitched": {"bytes are reserved, and live blocks have"},
		"greedy":   {"reserved on a device of 67108864: answer full"},
		"falls":    {"do not fall"},
		"waits":    {"expected w,<id> of a block whose free was asked for", `got "w,0"`},
		"chatty":   {"more answers than questions"},
		"stays":    {"does not end after q for 5s"},
		"fails":    {"ended with exit status 3 after q"},
		"noisy":    {"has ended, exit status 3", "noise"},
	} {
		t.Run(kind, func(t *testing.T) {
			begun := time.Now()
			recording := writeTrace(t, kind == "deaf")
			limit := DefaultTimeout
			// A simulator that has yet to answer must have started by then.
			if _, text, timed := strings.Cut(want[0], " for "); timed {
				limit, _ = time.ParseDuration(text)
			}
			_, _, err := scored(t, kind, recording, replay.Config{Capacity: 64 * mem.MiB}, limit)
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("%v", err)
			}
			for _, text := range want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v\nexpected %s", err, text)
				}
			}
			if took := time.Since(begun); took >= time.Minute { // as long as some of them sleep
				t.Errorf("it took %v", took)
			}
		})
	}
}

// writeTrace makes a recording: of two blocks, or of more frees than pipes take.
func writeTrace(t *testing.T, long bool) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("# workload x\n# setup\n# step 0\na,0,512,0,1\na,1,1024,0,2\nr,0,3\nf,0,3\n")
	for i := range 200_000 {
		if !long {
			break
		}
		fmt.Fprintf(&b, "e,%d\n", i)
	}
	b.WriteString("# end\n")
	path := t.TempDir() + "/run.csv"
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadCommand: what cannot be started is named.
func TestBadCommand(t *testing.T) {
	if _, err := New("", nil, time.Second); err == nil || !strings.Contains(err.Error(), "--") {
		t.Errorf("no command: %v", err)
	}
	if _, err := New("", []string{"x"}, 0); err == nil || !strings.Contains(err.Error(), "0s") {
		t.Errorf("no time: %v", err)
	}
	s, err := New("", []string{"/nothing/here"}, time.Second)
	if err == nil {
		_, err = s.Allocator().Replay(context.Background(), read(t, tiny),
			replay.Config{Capacity: mem.GiB}, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "/nothing/here") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestAnswerChecks: a server that is told of another recording says so.
func TestAnswerChecks(t *testing.T) {
	a, _ := replay.Lookup("native")
	tr := read(t, tiny)
	for name, in := range map[string]string{
		"no capacity": "a,0,512,0,1\n", "another recording": "c,1000000000\n# other\n",
		"cut": "c,99\n",
	} {
		err := Answer(context.Background(), strings.NewReader(in), io.Discard, tr, a,
			replay.Config{})
		if err == nil || !strings.Contains(err.Error(), "of the input: expected") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBlocks compares what is said of places at random with each byte's.
func TestBlocks(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	b, taken := newBlocks(), make([]int64, 200) // by grain; 0: nobody's
	for id := int64(1); id < 3000; id++ {
		at, n := r.IntN(190), 1+r.IntN(10)
		free := true
		for _, by := range taken[at : at+n] {
			free = free && by == 0
		}
		where, size := mem.Addr(at)*mem.Addr(mem.Grain), mem.Bytes(n)*mem.Grain
		if under := b.under(where, size); (len(under) == 0) != free {
			t.Fatalf("seed %d: %d blocks are under a place that is free: %v", seed, len(under), free)
		}
		if err := b.add(id, where, size); (err == nil) != free {
			t.Fatalf("seed %d, block %d, free %v: %v", seed, id, free, err)
		} else if free {
			copy(taken[at:at+n], slices.Repeat([]int64{id}, n))
		}
		if r.IntN(3) > 0 {
			continue
		}
		if gone := taken[r.IntN(200)]; gone > 0 {
			b.remove(gone)
			for i, by := range taken {
				if by == gone {
					taken[i] = 0
				}
			}
		}
		held := mem.Bytes(0)
		for _, by := range taken {
			if by > 0 {
				held += mem.Grain
			}
		}
		if b.bytes != held {
			t.Fatalf("seed %d: %d bytes are live, expected %d", seed, b.bytes, held)
		}
	}
}
