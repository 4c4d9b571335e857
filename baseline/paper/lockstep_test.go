package paper

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
)

// script turns bytes into a plan and operations.
type script struct{ data []byte }

func (s *script) byte() int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b)
}

var sizes = []mem.Bytes{512, 513, 1024, 4000, 4096, 100_000, 700_000, 1 << 20, 3 << 20}

func (s *script) size() mem.Bytes { return sizes[s.byte()%len(sizes)] }

// plan makes one whose entries may overlap: what is taken is looked at when a request comes.
func (s *script) plan() *Plan {
	p := &Plan{Region: 4 << 20, Cells: mem.Bytes(s.byte()%5) * cellSize, ignoring: s.byte()%2 == 0,
		stream: 7}
	entries := func(n int) (all []entry) {
		for range n {
			e := entry{s.size(), 7 + mem.StreamID(s.byte()/200), nowhere}
			if room := int64(p.Region - mem.Round(e.size)); s.byte()%8 > 0 {
				e.at = mem.Offset(int64(s.byte()) * room / 255 / 512 * 512)
			}
			all = append(all, e)
		}
		return all
	}
	p.head, p.step = entries(s.byte()%30), entries(s.byte()%30)
	for range s.byte() % 60 {
		p.modules = append(p.modules, int32(s.byte()%4)-1)
	}
	for which := range p.idle {
		p.idle[which] = map[int32]idle{}
		for module := range int32(2) { // none for the third
			low := mem.Offset(0)
			for range s.byte() % 4 {
				from := low + mem.Offset(1+s.byte())*512
				low = min(from+mem.Offset(1+s.byte())*8192, mem.Offset(p.Region))
				if from < low {
					p.idle[which][module] = append(p.idle[which][module], span{from, low})
				}
			}
		}
	}
	return p
}

// lockstep runs a script on the allocator and its model, and compares where blocks lie, what is
// active and what is refused.
func lockstep(data []byte) error {
	s := &script{data}
	p := s.plan()
	o := baseline.Options{Capacity: []mem.Bytes{64 << 20, 12 << 20, 1 << 30}[s.byte()%3]}
	if s.byte()%3 == 0 {
		o.Limit = o.Capacity * 3 / 4
	}
	a, err := New(o, p)
	if err != nil {
		return err
	}
	m := newNaive(o, p)
	var live []baseline.Block // the model's have the same names
	for n := 0; len(s.data) > 0; n++ {
		what, err := turn(s, a, m, &live)
		if err == nil {
			err = a.Check()
		}
		if got := a.Stats(); err == nil && got.Active != m.active() {
			err = fmt.Errorf("%d bytes are active, want %d", got.Active, m.active())
		}
		if err != nil {
			return fmt.Errorf("operation %d, %s: %w", n, what, err)
		}
	}
	return nil
}

func turn(s *script, a *Allocator, m *naive, live *[]baseline.Block) (string, error) {
	op := s.byte()
	if op < 130 {
		size, stream := s.size(), mem.StreamID(7+s.byte()/200)
		what := fmt.Sprintf("malloc %d on %d", size, stream)
		got, err := a.Malloc(size, stream)
		want, failed := m.malloc(size, stream)
		full := errors.Is(err, baseline.ErrOutOfMemory)
		if (err == nil) != (failed == nil) || err != nil && !full {
			return what, fmt.Errorf("error %v, want %v", err, failed)
		}
		if err != nil {
			return what, nil
		}
		*live = append(*live, got)
		return what, same(a, m, got, want)
	}
	switch {
	case op >= 250:
		a.Leave()
		m.left = true
		return "leave", nil
	case op >= 245:
		a.Step()
		m.step, m.ordinal, m.left = m.step+1, 0, false
		return "step", nil
	}
	if len(*live) == 0 {
		return "nothing", nil
	}
	i := s.byte() % len(*live)
	b := (*live)[i]
	x := m.live[b]
	if op < 210 || x == nil {
		*live = append((*live)[:i], (*live)[i+1:]...)
		if x == nil {
			return "free in the cache", errors.Join(m.cache.Free(b), a.Free(b))
		}
		if x.freed = true; !x.used {
			m.end(b)
			return "free", a.Free(b)
		}
		if err := a.Free(b); err != nil {
			return "free", err
		}
		m.end(b)
		return "complete", a.Complete(b)
	}
	on := x.stream + mem.StreamID(op%2)
	x.used = x.used || on != x.stream && !m.plan.ignoring
	return "record", a.RecordStream(b, on)
}

// same compares where a block lies.
func same(a *Allocator, m *naive, got, want baseline.Block) error {
	at, err := a.Addr(got)
	if err != nil || got != want {
		return fmt.Errorf("block %d, %v, want %d", got, err, want)
	}
	if x := m.live[want]; x != nil {
		base := regionAt
		if x.cell {
			base = cellsAt
		}
		if at.Offset != base+mem.Offset(x.at) {
			return fmt.Errorf("at %v, want %d of %d", at, x.at, base)
		}
		return nil
	}
	if other, err := m.cache.Addr(want); err != nil || at != other {
		return fmt.Errorf("at %v, want %v of the cache", at, other)
	}
	return nil
}

func randomScript(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestLockstep runs random scripts, the short ones first.
func TestLockstep(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, i))
		if err := lockstep(randomScript(r, 300+int(i)*4)); err != nil {
			t.Fatalf("seed %d, script %d: %v", seed, i, err)
		}
	}
}

func FuzzLockstep(f *testing.F) {
	for i := range uint64(16) {
		f.Add(randomScript(rand.New(rand.NewPCG(7, i)), 900))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 { // the model is slow
			return
		}
		if err := lockstep(data); err != nil {
			t.Fatal(err)
		}
	})
}
