package baseline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// script turns bytes into a configuration and operations, so that the fuzzer
// and the random tests explore the same space.
type script struct{ data []byte }

func (s *script) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *script) pick(from ...mem.Bytes) mem.Bytes { return from[int(s.byte())%len(from)] }

func (s *script) options() Options {
	o := Options{Capacity: s.pick(4*mem.GiB, 300*mem.MiB, 100*mem.MiB, 61*mem.MiB, 1*mem.GiB,
		640*mem.MiB)}
	flags := s.byte()
	if flags&1 != 0 {
		o.MaxSplit = s.pick(20*mem.MiB, 32*mem.MiB, 100*mem.MiB)
		o.NonSplitRounding = s.pick(0, 1*mem.MiB, 40*mem.MiB)
	}
	if flags&2 != 0 {
		o.Limit = o.Capacity * 3 / 4
		o.GCThreshold = []float64{0, 0.2, 0.5, 0.8}[s.byte()%4]
	}
	if flags&4 != 0 {
		for i := range o.Roundup {
			o.Roundup[i] = []int{0, 1, 2, 4, 8}[s.byte()%5]
		}
	}
	o.Ascending = flags&8 != 0
	return o
}

// size favours the boundaries between size classes and sizes seen before.
func (s *script) size(scale byte) mem.Bytes {
	base := s.pick(1, 512, 4096, 300000, 1<<20, 1<<20+1, 2<<20, 3<<20, 10<<20-512, 10<<20, 19<<20,
		19<<20-512, 20<<20, 21<<20, 32<<20, 40<<20, 64<<20, 6<<20, 12<<20, 100<<20)
	switch fine := s.byte(); {
	case fine < 100:
		return base
	case fine < 160:
		return max(1, base-1-mem.Bytes(s.byte())*512)
	case fine < 220:
		return base + mem.Bytes(s.byte())*mem.Bytes(scale)*1000
	default:
		return base + mem.Bytes(s.byte())*(1<<19)
	}
}

type pair struct {
	b  Block
	id int
}

// lockstep runs a script on a simulator and its slow model. It returns an error at
// the first difference or broken invariant.
func lockstep(name string, data []byte) error {
	s := &script{data}
	o := s.options()
	a, err := New(name, o)
	if err != nil {
		return err
	}
	m := newNaive(o, name == "expandable")
	var live, waits []pair
	for n := 0; len(s.data) > 0; n++ {
		op := s.byte()
		what, err := step(s, op, a, m, &live, &waits)
		if err == nil {
			err = a.Check()
		}
		if got, want := a.Stats(), m.current(); err == nil && got != want {
			err = fmt.Errorf("statistics:\n got %+v\nwant %+v", got, want)
		}
		if err != nil {
			return fmt.Errorf("%s with %+v: operation %d, %s: %w", name, o, n, what, err)
		}
	}
	return nil
}

func step(s *script, op byte, a Allocator, m *naive, live, waits *[]pair) (string, error) {
	take := func(from *[]pair) (pair, bool) {
		if len(*from) == 0 {
			return pair{}, false
		}
		i := int(s.byte()) % len(*from)
		p := (*from)[i]
		return p, true
	}
	remove := func(from *[]pair, p pair) {
		for i := range *from {
			if (*from)[i] == p {
				*from = append((*from)[:i], (*from)[i+1:]...)
				return
			}
		}
	}
	switch {
	case op < 128:
		return mallocBoth(s, op, a, m, live)
	case op < 216:
		if p, ok := take(live); ok {
			m.Free(p.id)
			remove(live, p)
			err := a.Free(p.b)
			if _, gone := a.Addr(p.b); gone == nil {
				*waits = append(*waits, p)
			}
			return fmt.Sprint("free ", p.id), err
		}
	case op < 226:
		if p, ok := take(live); ok {
			on := mem.StreamID(s.byte() % 4)
			m.Record(p.id, on)
			return fmt.Sprint("record ", p.id, " on ", on), a.RecordStream(p.b, on)
		}
	case op < 232:
		if p, ok := take(live); ok {
			m.Defer(p.id)
			return fmt.Sprint("defer ", p.id), a.Defer(p.b)
		}
	case op < 247:
		if p, ok := take(waits); ok {
			remove(waits, p)
			if _, gone := a.Addr(p.b); gone != nil {
				return "", nil
			}
			m.Complete(p.id)
			return fmt.Sprint("complete ", p.id), a.Complete(p.b)
		}
	case op < 251:
		m.Sync()
		a.Synchronize()
		return "synchronize", nil
	default:
		m.Empty()
		a.EmptyCache()
		return "empty cache", nil
	}
	return "nothing", nil
}

// mallocBoth serves one request by both and compares where.
func mallocBoth(s *script, op byte, a Allocator, m *naive, live *[]pair) (string, error) {
	size, stream := s.size(op), mem.StreamID(op%8/6) // stream 0 three times of four
	b, err := a.Malloc(size, stream)
	id, at, ok := m.Malloc(size, stream)
	what := fmt.Sprintf("malloc %d on %d", size, stream)
	if ok != (err == nil) || err != nil && !errors.Is(err, ErrOutOfMemory) {
		return what, fmt.Errorf("error %v, model served: %v", err, ok)
	}
	if err != nil {
		return what, nil
	}
	*live = append(*live, pair{b, id})
	if got, err := a.Addr(b); err != nil || got != at {
		return what, fmt.Errorf("at %v (%v), want %v", got, err, at)
	}
	return what, nil
}

func randomScript(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestLockstep runs random scripts, the short ones first, so that the first
// difference found is a small one.
func TestLockstep(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			scripts := uint64(300)
			if invariants.Enabled {
				scripts = 100 // the self-checks and the race detector take their time
			}
			for i := range scripts {
				r := rand.New(rand.NewPCG(seed, i))
				if err := lockstep(name, randomScript(r, 20+int(i)*4)); err != nil {
					t.Fatalf("seed %d, script %d: %v", seed, i, err)
				}
			}
		})
	}
}

func FuzzLockstep(f *testing.F) {
	for i := uint64(0); i < 24; i++ {
		f.Add(byte(i), randomScript(rand.New(rand.NewPCG(7, i)), 600))
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		if len(data) > 1500 { // the models take quadratic time
			return
		}
		if err := lockstep(Names()[int(which)%len(Names())], data); err != nil {
			t.Fatal(err)
		}
	})
}
