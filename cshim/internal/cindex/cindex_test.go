package cindex_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/cshim/internal/cquick"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// pair is the index in C and the model, told the same.
type pair struct {
	c     index.Index
	m     *index.Model
	fresh index.Unit // addresses from here on were never given
	at    []index.Unit
}

const arenas = 8 // the first two belong to no stream

// one does what a few bytes say, if that can be.
func (p *pair) one(next func(int) int) {
	s := uint32(2 + next(arenas-2))
	n := index.Unit(1+next(32)) << next(12)
	switch k := next(16); {
	case k < 6: // a block
		g := p.m.Fit(s, n)
		if g.Size() == 0 {
			lo := p.fresh
			p.fresh += 4*n + index.Unit(next(3)) // memory that touches what was given last, or not
			p.give(s, lo, lo+4*n)
			return
		}
		at := g.Lo
		if k < 2 {
			at = g.Hi - n
		} else if k < 4 {
			at += index.Unit(next(8)) * (g.Size() - n) / 8
		}
		p.put(index.Block{At: at, Size: n, Arena: s, Slack: uint16(next(512)),
			State: index.State(next(2))})
	case k < 7: // a block in a view
		p.put(index.Block{At: p.fresh, Size: n, Arena: s, State: index.Kept, InView: true})
		p.fresh += n
	case k < 12:
		if i := p.some(next); i >= 0 {
			p.c.Drop(p.at[i])
			p.m.Drop(p.at[i])
			p.at = slices.Delete(p.at, i, i+1)
		}
	case k < 13:
		if i := p.some(next); i >= 0 {
			state := index.State(1 + next(2))
			p.c.Mark(p.at[i], state)
			p.m.Mark(p.at[i], state)
		}
	case k < 14: // memory goes
		if g := p.m.Fit(s, n); g.Size() > 0 {
			lo := g.Lo + index.Unit(next(8))*(g.Size()-n)/8
			p.c.Take(s, lo, lo+n)
			p.m.Take(s, lo, lo+n)
			if next(2) == 0 { // and comes again
				p.give(s, lo, lo+n)
			}
		}
	case k < 15:
		p.c.EndStep()
		p.m.EndStep()
	default:
		if r := p.m.Room(s); r.Free == 0 && p.m.Room(s^1).Free == 0 && r.Load == 0 &&
			p.m.Room(s^1).Load == 0 {
			p.assign(s/2, mem.StreamID(next(4)))
		}
	}
}

func (p *pair) some(next func(int) int) int { return next(max(len(p.at), 1)) - b2i(len(p.at) == 0) }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *pair) give(s uint32, lo, hi index.Unit) {
	p.c.Give(s, lo, hi)
	p.m.Give(s, lo, hi)
}

func (p *pair) put(b index.Block) {
	p.c.Put(b)
	p.m.Put(b)
	p.at = append(p.at, b.At)
}

func (p *pair) assign(heap uint32, id mem.StreamID) {
	p.c.Assign(heap, id, 0)
	p.m.Assign(heap, id, 0)
}

// same compares all that the two answer.
func (p *pair) same(next func(int) int) error {
	if a, b := p.c.Total(), p.m.Total(); a != b {
		return fmt.Errorf("totals: C %+v, model %+v", a, b)
	}
	for s := range uint32(arenas + 2) {
		if a, b := p.c.Room(s), p.m.Room(s); a != b {
			return fmt.Errorf("arena %d: C %+v, model %+v", s, a, b)
		}
		a, b := slices.Collect(p.c.Gaps(s)), slices.Collect(p.m.Gaps(s))
		if !slices.Equal(a, b) {
			return fmt.Errorf("gaps of arena %d: C %v, model %v", s, a, b)
		}
		n := index.Unit(1+next(32)) << next(14)
		if a, b := p.c.Fit(s, n), p.m.Fit(s, n); a != b {
			return fmt.Errorf("%d units fit in arena %d: C %v, model %v", n, s, a, b)
		}
		for _, at := range []index.Unit{index.Unit(next(256)) * p.fresh / 256, p.fresh} {
			if a, b := p.c.Gap(s, at), p.m.Gap(s, at); a != b {
				return fmt.Errorf("the gap at %d of arena %d: C %v, model %v", at, s, a, b)
			}
		}
		for _, g := range a {
			if x, y := p.c.Gap(s, g.Hi-1), p.c.Gap(s, g.Hi); x != g || y.Size() != 0 {
				return fmt.Errorf("gap %v is found as %v, after it %v", g, x, y)
			}
		}
	}
	byPlace := func(a, b index.Block) int { return cmp.Compare(a.At, b.At) }
	a, b := slices.SortedFunc(p.c.Blocks(), byPlace), slices.SortedFunc(p.m.Blocks(), byPlace)
	if !slices.Equal(a, b) {
		return fmt.Errorf("blocks: C %+v, model %+v", a, b)
	}
	for _, want := range b {
		if got, ok := p.c.Block(want.At); !ok || got != want {
			return fmt.Errorf("C finds %+v as %+v", want, got)
		}
		if got, ok := p.c.Block(want.At + 1); ok && got.At == want.At {
			return fmt.Errorf("C finds %+v by its second unit", want)
		}
	}
	return nil
}

// script has both do what bytes say, and compares them every so often.
func script(data []byte, every int) error {
	device := cquick.New(0, 0)
	defer device.Close()
	p := &pair{c: device.Index(), m: index.NewModel(), fresh: 4096}
	for h := range uint32(arenas/2 - 1) {
		p.assign(1+h, mem.StreamID(h))
	}
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) * n / 256
	}
	for n := 1; len(data) > 0; n++ {
		p.one(next)
		if n%every == 0 {
			if err := p.same(next); err != nil {
				return fmt.Errorf("event %d: %w", n, err)
			}
		}
	}
	return p.same(next)
}

// TestSameAnswers: long lives, so that the arrays grow more than once.
func TestSameAnswers(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 2000<<min(seed, 6))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if err := script(data, 1+len(data)/1000); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzSameAnswers(f *testing.F) {
	f.Add([]byte("give, put, drop, take, mark, and all of it again, until nobody knows where"))
	f.Add([]byte{0, 255, 200, 0, 0, 255, 200, 0, 0, 255, 200, 130, 0, 255, 200, 190, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := script(data[:min(len(data), 4096)], 4); err != nil {
			t.Fatal(err)
		}
	})
}
