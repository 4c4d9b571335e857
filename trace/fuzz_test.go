package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// check reads data and holds what every input must hold: an error is a
// FormatError, and what was read can be written and read again.
func check(data []byte) error {
	events, err := readAll(data, "fuzz", func(o *options) { o.cells = 1 << 20 })
	var format *FormatError
	if err != nil && !errors.As(err, &format) {
		return fmt.Errorf("not a format error: %w", err)
	}
	if framed, err := readAll(data, "fuzz", func(o *options) {
		o.cells, o.frames = 1<<20,
			true
	}); err == nil {
		if i := firstDifference(events, framed); i >= 0 {
			return fmt.Errorf("event %d differs when stacks are read", i)
		}
	} else if !errors.As(err, &format) { // or stacks took it beyond the bound
		return fmt.Errorf("with stacks, not a format error: %w", err)
	}
	again, err := readAll((&Trace{Header: "workload fuzz", Events: events}).text(), "again")
	if i := firstDifference(events, again); err != nil || i >= 0 {
		return fmt.Errorf("event %d differs when written and read again, %v", i, err)
	}
	return nil
}

func seeds(t testing.TB, files ...string) [][]byte {
	var data [][]byte
	for _, file := range files {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, b)
	}
	return data
}

func FuzzText(f *testing.F) {
	f.Add([]byte(header +
		"# setup\na,0,1,0,3\na,1,513,18446744073709551615,4\ns,1,5,5\nr,0,6\ne,7\nf,0,8\n# end\n"))
	f.Add([]byte(header + "a,9223372036854775807,1,0,0\r\nr,9223372036854775807,0\r\n"))
	f.Add(zipped([]byte(header + "a,0,1,0,3\n")))
	f.Add([]byte(header + "k,0,,a.py:1 f\nk,1,0,b.py:2 g\na,0,1,0,3,1\na,1,1,0,3,0\n"))
	f.Add(seeds(f, "snapshot.csv")[0][:3000])
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := check(data); err != nil {
			t.Error(err)
		}
	})
}

func FuzzPickle(f *testing.F) {
	f.Add(pickled(object{
		"segments", []any{segment(0, 4096, 0, object{"size", 512, "state", "active_allocated"})},
		"device_traces", []any{[]any{entry("alloc", 1, 11, 7, 0), entry("free_requested", 1, 11, 7,
			1), entry("free_completed", 1, 11, 7, 2)}},
	})[1:])
	f.Add([]byte("\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00}."))
	f.Add([]byte("\x02]q\x00(K\x01M\x01\x02J\xff\xff\xff\xff\x8a\x01\xff\x8b\x02\x00\x00\x00\x00\x80G01234567\x88\x89)h\x00e."))
	f.Add(seeds(f, "code.pickle")[0][1:])
	f.Add([]byte("\x04}r\xff\xff\xff\xffj\xff\xff\xff\xff\x85\x94."))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The first byte is given: everything else is the text reader's.
		if err := check(append([]byte{opProto}, data...)); err != nil {
			t.Error(err)
		}
	})
}

// TestDamaged flips, drops and repeats bytes of good files at random.
func TestDamaged(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, whole := range seeds(t, "snapshot.csv", "snapshot.p2.pickle.gz", "slow.p4.pickle") {
		for range 150 {
			data := bytes.Clone(whole)
			for range 1 + rng.IntN(4) {
				at, n := rng.IntN(len(data)), 1+rng.IntN(8)
				end := min(at+n, len(data))
				switch rng.IntN(3) {
				case 0:
					data[at] ^= 1 << rng.IntN(8)
				case 1:
					data = append(data[:at], data[end:]...)
				case 2:
					data = append(data[:end:end], data[at:]...)
				}
			}
			if err := check(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}
