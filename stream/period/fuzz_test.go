package period

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// naive finds the valley in front of a request by walking back over the whole
// history, as the type's documentation defines it.
type naive struct {
	sizes []event
	large []bool
	load  []mem.Bytes // before the event
	now   mem.Bytes
}

func (n *naive) valley(cut mem.Bytes) (v valley, ok bool) {
	end := len(n.sizes)
	last := end - 1 // the last large event
	for last >= 0 && !n.large[last] {
		last--
	}
	request := last // the last large request
	for request >= 0 && !(n.large[request] && n.sizes[request] >= 0) {
		request--
	}
	after := func(i int) mem.Bytes { // the load behind event i
		if i < 0 {
			return 0
		}
		return n.load[i] + n.sizes[i]
	}
	v.level, v.at = after(last), mem.Tick(last+1)
	for i := last + 1; i <= end; i++ {
		if i < end && n.sizes[i] < 0 {
			continue // a valley has a request behind it
		}
		load := n.now
		if i < end {
			load = n.load[i]
		}
		if load <= v.level {
			v.level, v.at = load, mem.Tick(i)
		}
	}
	v.fall = after(request) - v.level
	return v, v.fall >= cut
}

func (n *naive) add(size event, large bool) {
	n.sizes, n.large, n.load = append(n.sizes, size), append(n.large, large), append(n.load, n.now)
	n.now += size
}

// lockstep drives a Detector and the naive model with the same events.
func lockstep(events []event) error {
	var d, again Detector
	var n naive
	var last mem.Tick
	for i, e := range events {
		if e < 0 {
			large := -e >= d.cut
			d.Free(-e)
			again.Free(-e)
			n.add(e, large)
		} else {
			s := d.surface
			got, gotOK := s.request(e)
			if e >= d.cut {
				if want, ok := n.valley(d.cut); ok != gotOK || ok && got != want {
					return fmt.Errorf("event %d: valley %+v %v, want %+v %v", i, got, gotOK, want, ok)
				}
			} else if gotOK {
				return fmt.Errorf("event %d: a small request ends a valley", i)
			}
			large := e >= d.cut
			boundary := d.Alloc(e)
			if again.Alloc(e) != boundary {
				return fmt.Errorf("event %d: not the same twice", i)
			}
			if boundary && (d.last-last < shortest || d.last > d.now) {
				return fmt.Errorf("event %d: boundaries at %d and %d", i, last, d.last)
			}
			last = d.last
			n.add(e, large)
		}
		if err := check(&d); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

// check holds what every state must hold.
func check(d *Detector) error {
	s := &d.stack
	if s.n > depth || d.atlas.n > profiles {
		return fmt.Errorf("%d contenders, %d profiles", s.n, d.atlas.n)
	}
	for i := range s.n {
		c := &s.at[i]
		if c.visits < 1 || c.crest < c.level || c.rival > rivals || c.at > d.now {
			return fmt.Errorf("contender %d: %+v", i, c)
		}
		if i > 0 && c.at < s.at[i-1].at {
			return fmt.Errorf("contenders %d and %d are not in the order of time", i-1, i)
		}
	}
	for i := range d.atlas.n {
		p := &d.atlas.at[i]
		if p.id == 0 || d.atlas.with(p.id) != i || p.period < shortest || p.at > d.now {
			return fmt.Errorf("profile %d: %+v", i, p)
		}
	}
	if d.cut < 0 || d.cut&(d.cut-1) != 0 {
		return fmt.Errorf("cut %d", d.cut)
	}
	return nil
}

// decode reads events from bytes: a request of a size class, the free of the
// block that is the n-th youngest, or the repetition of what was so far.
func decode(data []byte) []event {
	var events []event
	var live []mem.Bytes
	for i := 0; i+1 < len(data) && len(events) < 1200; i += 2 {
		op, arg := data[i], data[i+1]
		switch {
		case op < 120:
			n := mem.Grain << (op % 24) * mem.Bytes(1+arg%8)
			live, events = append(live, n), append(events, n)
		case op < 240:
			if len(live) == 0 {
				events = append(events, -mem.Grain<<(arg%24)) // of a block never seen
				continue
			}
			k := len(live) - 1 - int(arg)%len(live)
			events = append(events, -live[k])
			live = append(live[:k], live[k+1:]...)
		default:
			for range 1 + arg%8 {
				if len(events) < 600 {
					events = append(events, events...)
				}
			}
		}
	}
	return events
}

func FuzzDetector(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{200, 0, 10, 0, 200, 0})
	// A step of three blocks and its repetition.
	f.Add([]byte{12, 0, 13, 1, 200, 1, 14, 0, 2, 0, 200, 0, 3, 3, 200, 0, 200, 0, 15, 0, 15, 0, 200, 0, 200, 0, 200, 0, 255, 7})
	p := &program{rng: rand.New(rand.NewPCG(1, 1))}
	m := newModel(2, 512)
	p.create(m)
	for range 4 {
		p.step(m, 512, 2)
	}
	data := make([]byte, 0, 2*len(p.events))
	for _, e := range p.events {
		if e > 0 {
			data = append(data, byte(e/mem.Grain%24), byte(e))
		} else {
			data = append(data, 130, byte(-e/mem.Grain))
		}
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := lockstep(decode(data)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRandomEvents is the fuzz target on a bounded number of random inputs, and
// on the events of random programs with extreme sizes.
func TestRandomEvents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		data := make([]byte, rng.IntN(1500))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if err := lockstep(decode(data)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	var d Detector // sums that overflow and sizes below zero do no harm
	for range 100_000 {
		n := mem.Bytes(rng.Uint64()) >> rng.IntN(64)
		if rng.IntN(2) == 0 {
			d.Alloc(n)
		} else {
			d.Free(n)
		}
	}
	if d.stack.n > depth || d.atlas.n > profiles {
		t.Errorf("%d contenders, %d profiles", d.stack.n, d.atlas.n)
	}
}

// TestAllocates: no event allocates.
func TestAllocates(t *testing.T) {
	r := load(t, "../../tests/traces/llama_naive.csv.gz")
	d := new(Detector)
	n := testing.AllocsPerRun(2, func() {
		for _, e := range r.events {
			if e < 0 {
				d.Free(-e)
			} else {
				d.Alloc(e)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations in %d events, want none", n, len(r.events))
	}
}
