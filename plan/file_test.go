package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"stalloc/internal/mem"
)

// samplePlan has two streams, blocks that outlive their step, that other streams use behind their
// free, and that do until the step is over.
func samplePlan(t testing.TB) *Plan {
	t.Helper()
	return &Plan{
		Steps: []Step{
			{Stream: 0, Requests: []Request{
				{Size: 512, From: 0, Free: 7, Done: 7},
				{Size: 40 * mem.MiB, From: 3, Free: 8, Done: 9},
				{Size: 2 * mem.MiB, From: 4, Free: 6, Done: Never},
			}},
			{Stream: 0, Requests: []Request{{Size: 512, From: 1, Free: Never, Done: Never}}},
			{Stream: 3, Requests: []Request{{Size: 2 * mem.MiB, From: 1, Free: 2, Done: 3}}},
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

func TestFileRoundTrip(t *testing.T) {
	plans := []*Plan{samplePlan(t), {}, {Steps: []Step{{Stream: 7}}}}
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
		"newer version":   {change(len(fileMagic)+1, 'a'), ErrVersion},
		"version before":  {[]byte(fileMagic + " 9\n\x02\x00"), ErrVersion},
		"older version":   {append([]byte(fileMagic), 6, 0, 0, 0, 17), ErrVersion},
		"something after": {append(bytes.Clone(good), 0), ErrCorrupt},
		"flipped":         {change(len(good)-20, good[len(good)-20]^0x80), ErrCorrupt},
		"nothing behind":  {[]byte(fileHead), ErrCorrupt},
		"too long":        {append(bytes.Clone(good), make([]byte, maxFile)...), ErrCorrupt},
		"an older one":    {[]byte(fileMagic + " 7\n\x1f\x8b"), ErrVersion},
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
		if text := err.Error(); !strings.Contains(text, "some/file.plan") ||
			!strings.Contains(text, "have it written anew") {
			t.Errorf("%s: the error does not say where it is and what to do: %v", name, err)
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := Decode(io.MultiReader(bytes.NewReader(good[:40]), failing{broken}),
		"x"); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
	if err := samplePlan(t).Encode(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a failing writer: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestDecodeChecksPlans: every byte behind the head is changed in turn; what is accepted must be a
// plan that validates.
func TestDecodeChecksPlans(t *testing.T) {
	good := encode(t, samplePlan(t))
	refused := 0
	for at := len(fileHead); at < len(good); at++ {
		for _, change := range []byte{1, 2, 0x40, 0x80} {
			bad := bytes.Clone(good)
			bad[at] ^= change
			p, err := Decode(bytes.NewReader(bad), "x")
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

// TestDecodeIsBounded: the largest plan is read, and a file of more values is not taken apart.
func TestDecodeIsBounded(t *testing.T) {
	of := func(steps, requests int) []byte {
		p := &Plan{Steps: make([]Step, steps)}
		p.Steps[0] = Step{Requests: make([]Request, requests)}
		for i := range p.Steps[0].Requests {
			p.Steps[0].Requests[i] = Request{Size: 512, From: mem.Tick(i), Free: Never, Done: Never}
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte(fileHead), b...)
	}
	empty := []byte(fileHead + `{"steps":[` + strings.Repeat("{},", 30<<20) + "{}]}")
	for name, c := range map[string]struct {
		file []byte
		good bool
	}{
		"requests":          {of(1, maxRequests), true},
		"too many requests": {of(1, maxRequests+1), false},
		"steps":             {of(maxSteps, 1), true},
		"too many steps":    {of(maxSteps+1, 1), false},
		"too many values":   {empty, false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(c.file)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; (err == nil) != c.good || got > 1<<28 {
			t.Errorf("%s: %v, %d bytes were made of %d", name, err, got, len(c.file))
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := encode(f, samplePlan(f))
	f.Add(good)
	f.Add(good[:len(good)-9])
	f.Add([]byte(fileMagic))
	f.Add(encode(f, &Plan{}))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := Decode(bytes.NewReader(file), "fuzz")
		if err != nil {
			p, err = Decode(bytes.NewReader(append([]byte(fileHead), file...)), "fuzz")
		}
		if err != nil {
			return
		}
		if again, err := Decode(bytes.NewReader(encode(t, p)), "fuzz"); err != nil ||
			!reflect.DeepEqual(again, p) {
			t.Fatalf("a decoded plan does not survive encoding: %v", err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "step.plan")
	if _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(),
		path) {
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
			p.Steps = slices.Clone(sample.Steps[:1+writer%3])
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
	invalid.Steps = []Step{{Stream: -1}}
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

// TestValidate: what no plan may say is refused by name.
func TestValidate(t *testing.T) {
	for want, spoil := range map[string]func(*Plan){
		"numbered from 0":   func(p *Plan) { p.Steps[1].Stream = -1 },
		"0 bytes":           func(p *Plan) { p.Steps[0].Requests[0].Size = 0 },
		"multiple of 512":   func(p *Plan) { p.Steps[0].Requests[0].Size = 513 },
		"expected an order": func(p *Plan) { p.Steps[0].Requests[2].From = 2 },
		"freed at 2":        func(p *Plan) { p.Steps[0].Requests[1].Free = 2 },
		"done at 7":         func(p *Plan) { p.Steps[0].Requests[1].Done = 7 },
		"done at 2":         func(p *Plan) { p.Steps[1].Requests[0].Done = 2 },
		"at most 9":         func(p *Plan) { p.Steps[0].Requests[1].Done = 10 },
	} {
		p := samplePlan(t)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPlaced: a step in an arena of its own has no two blocks on one byte at one time, what
// outlives it included, and is as high as its highest block. As it is kept its ticks have no gaps,
// and the step that it was made of stays.
func TestPlaced(t *testing.T) {
	given := Step{Requests: []Request{
		{Size: 1024, From: 0, Free: 2, Done: 2, At: 7 << 20}, // where it lay in some range
		{Size: 512, From: 1, Free: 3, Done: 5, At: 7 << 20},
		{Size: 1024, From: 4, Free: Never, Done: Never, At: 7 << 20},
		{Size: 512, From: 6, Free: 8, Done: 8, At: 7 << 20},
	}}
	s := given.Kept()
	placed, highest, end := s.Placed(), mem.Bytes(0), s.End()
	if end != 8 {
		t.Errorf("the step ends at %d, its last block at 7: nothing happens at 7 of the one given",
			end)
	}
	buffers := s.Buffers(end)
	for i, a := range placed.Offsets {
		highest = max(highest, mem.Bytes(a)+s.Requests[i].Size)
		for j, b := range placed.Offsets[:i] {
			together := buffers[i].Lower < buffers[j].Upper && buffers[j].Lower < buffers[i].Upper
			if together && a < b+mem.Offset(s.Requests[j].Size) &&
				b < a+mem.Offset(s.Requests[i].Size) {
				t.Errorf("requests %d and %d lie on each other: at %d, %d", j, i, b, a)
			}
		}
	}
	if highest != placed.Makespan || highest != 1536 {
		t.Errorf("%v are to be held, the highest block ends at %v", placed.Makespan, highest)
	}
	if s.Requests[0].At != 0 || given.Requests[0].At != 7<<20 || given.Requests[3].Free != 8 {
		t.Errorf("%+v is kept of %+v", s, given)
	}
}
