package plan

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"stalloc/internal/mem"
)

// samplePlan has two streams, both kinds of space, requests without a wish, and every
// field set.
func samplePlan(t testing.TB) *Plan {
	t.Helper()
	return &Plan{
		Key: 12345678901234567890, Handle: 8 * mem.MiB, Boundaries: 2, Late: Valley{Requests: 3, Drop: 5 * mem.GiB}, Brief: []int8{1, -2, 0},
		Spaces: []Space{
			{Ordinal: 0, Hold: 64 * mem.MiB, First: []Request{{512, 0, 2}, {40 * mem.MiB, mem.Offset(2 * mem.MiB), 0}, {1024, Nowhere, 1}}, Step: []Request{{2 * mem.MiB, mem.Offset(62 * mem.MiB), 0}, {512, 512, 0}}},
			{Ordinal: 0, Small: true, Hold: 2 * mem.MiB, First: []Request{{512, 512, 0}}},
			{Ordinal: 3, Hold: 2 * mem.MiB, Step: []Request{{2 * mem.MiB, 0, 0}}},
		},
	}
}

func encode(t testing.TB, p *Plan) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.Encode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unsealed and seal are what a file holds, and a file that holds something.
func unsealed(t testing.TB, file []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file[len(fileHead):]))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

var sealer = gzip.NewWriter(nil) // making one costs a millisecond

func seal(t testing.TB, payload []byte) []byte {
	t.Helper()
	out := bytes.NewBufferString(fileHead)
	z := sealer
	z.Reset(out)
	if _, err := z.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFileRoundTrip(t *testing.T) {
	plans := []*Plan{samplePlan(t), {}, {Key: 1<<64 - 1, Spaces: []Space{{Ordinal: 7}}}}
	for i, p := range plans {
		got, err := Decode(bytes.NewReader(encode(t, p)), "memory")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("plan %d changed on its way: %+v, expected %+v", i, got, p)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := encode(t, samplePlan(t))
	change := func(at int, to byte) []byte {
		bad := bytes.Clone(good)
		bad[at] = to
		return bad
	}
	cases := map[string]struct {
		file []byte
		kind error
	}{
		"empty":           {nil, ErrForeign},
		"text":            {[]byte("id,lower,upper,size\n"), ErrForeign},
		"short and alien": {[]byte("ELF"), ErrForeign},
		"newer version":   {change(len(fileMagic)+1, '9'), ErrVersion},
		"older version":   {append([]byte(fileMagic), 6, 0, 0, 0, 17), ErrVersion},
		"something after": {append(bytes.Clone(good), 0), ErrCorrupt},
		"flipped":         {change(len(good)-20, good[len(good)-20]^4), ErrCorrupt},
		"wrong checksum":  {change(len(good)-5, good[len(good)-5]^1), ErrCorrupt},
		"nothing sealed":  {seal(t, nil), ErrCorrupt},
		"a bomb":          {seal(t, make([]byte, maxFile+1)), ErrCorrupt},
	}
	for n := len(fileHead); n < len(good); n += 1 + n/9 {
		cases[fmt.Sprintf("cut at %d", n)] = struct {
			file []byte
			kind error
		}{good[:n], ErrCorrupt}
	}
	for name, c := range cases {
		p, err := Decode(bytes.NewReader(c.file), "some/file.plan")
		if !errors.Is(err, c.kind) || p != nil {
			t.Errorf("%s: %v, expected %v", name, err, c.kind)
			continue
		}
		if text := err.Error(); !strings.Contains(text, "some/file.plan") || !strings.Contains(text, "delete it") {
			t.Errorf("%s: the error does not say where it is and what to do: %v", name, err)
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := Decode(io.MultiReader(bytes.NewReader(good[:40]), failing{broken}), "x"); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
	if err := samplePlan(t).Encode(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a failing writer: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestDecodeChecksPlans: a well-formed file with an invalid plan is refused.
// Every byte of the payload is changed in turn under a right checksum; what is
// accepted must be a plan that validates.
func TestDecodeChecksPlans(t *testing.T) {
	good := unsealed(t, encode(t, samplePlan(t)))
	refused := 0
	for at := range good {
		for _, change := range []byte{1, 2, 0x40, 0x80} {
			bad := bytes.Clone(good)
			bad[at] ^= change
			p, err := Decode(bytes.NewReader(seal(t, bad)), "x")
			if err != nil {
				refused++
			} else if err := p.Validate(); err != nil {
				t.Fatalf("byte %d: an invalid plan was accepted: %v", at, err)
			}
		}
	}
	if refused < len(good) {
		t.Errorf("only %d of %d changes were refused", refused, 4*len(good))
	}
}

func FuzzDecode(f *testing.F) {
	good := encode(f, samplePlan(f))
	f.Add(good)
	f.Add(good[:len(good)-9])
	f.Add([]byte(fileMagic))
	f.Add(unsealed(f, good))
	f.Add(unsealed(f, encode(f, &Plan{})))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := Decode(bytes.NewReader(file), "fuzz")
		if err != nil {
			p, err = Decode(bytes.NewReader(seal(t, file)), "fuzz") // get behind the checksum
		}
		if err != nil {
			return
		}
		if again, err := Decode(bytes.NewReader(encode(t, p)), "fuzz"); err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("a decoded plan does not survive encoding: %v", err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "step.plan")
	if _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	// Many writers of different plans and readers at once: every read is whole.
	var group sync.WaitGroup
	sample := samplePlan(t)
	if err := WriteFile(path, sample); err != nil {
		t.Fatal(err)
	}
	for writer := range 8 {
		group.Go(func() {
			p := *sample
			p.Key = uint64(writer)
			for range 20 {
				if err := WriteFile(path, &p); err != nil {
					t.Error(err)
				}
				if _, err := ReadFile(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("temporary files were left: %v, %v", names, err)
	}
	invalid := *sample
	invalid.Spaces = []Space{{Hold: 1}}
	if err := WriteFile(path, &invalid); err == nil {
		t.Error("an invalid plan was written")
	}
	if err := WriteFile(filepath.Join(dir, "none", "step.plan"), sample); err == nil {
		t.Error("a folder that does not exist was written to")
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("a failed write left %v", names)
	}
}

// TestLoads: what is live before each request, as sizes and lives say.
func TestLoads(t *testing.T) {
	s := Space{First: []Request{{100, 0, 2}, {10, 100, 0}, {1, 0, 1}}, Step: []Request{{1000, 0, 9}, {5, 0, 0}}}
	first, step := s.Loads()
	if got, want := slices.Concat(first, step), []mem.Bytes{0, 100, 10, 10, 1010}; !slices.Equal(got, want) || len(step) != 2 {
		t.Errorf("%v, %v, want %v", first, step, want)
	}
}
