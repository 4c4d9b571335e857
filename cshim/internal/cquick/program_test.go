package cquick

import (
	"fmt"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// program is a step of one stream: requests by size, each freed after some later one,
// or in the next step.
type program struct {
	id    mem.StreamID
	sizes []mem.Bytes
	frees [][]int // after each request
	keeps []int   // freed where the next step begins
}

func (t *twins) program(id mem.StreamID, n int) *program {
	p := &program{id: id, sizes: make([]mem.Bytes, n), frees: make([][]int, n)}
	for i := range p.sizes {
		switch k := t.r.IntN(10); {
		case k < 5:
			p.sizes[i] = mem.Round(mem.Bytes(1+t.r.IntN(12)) * 700)
		case k < 9:
			p.sizes[i] = mem.Bytes(1+t.r.IntN(8)) * 100 * mem.KiB
		default:
			p.sizes[i] = mem.Bytes(1+t.r.IntN(3)) * 3 * mem.MiB
		}
		if at := i + t.r.IntN(1+t.r.IntN(20)); at < n && t.r.IntN(30) > 0 {
			p.frees[at] = append(p.frees[at], i)
		} else {
			p.keeps = append(p.keeps, i)
		}
	}
	return p
}

// noise is how often, of a thousand chances, something is not as in the step before. With
// regular, not even the frees are, and no list is played again; with trim, idle memory goes after
// each step.
type noise struct {
	skip, insert, keep, record, goes, pass, jump, swap int
	regular, trim                                      bool
}

func (t *twins) odd(n int) bool { return t.r.IntN(1000) < n }

// run plays a step of a program. held are blocks of the one before.
func (t *twins) run(p *program, x noise, held *[]block) ([]placed, error) {
	got := make([]placed, 0, len(p.sizes))
	at := map[int]block{}
	drop := func(b block) error {
		if t.odd(x.keep) {
			*held = append(*held, b)
			return nil
		}
		return t.free(b)
	}
	old := *held
	*held = nil
	for i, size := range p.sizes {
		if len(old) > 0 && (x.regular || t.r.IntN(3) == 0) {
			if err := t.free(old[0]); err != nil {
				return nil, err
			}
			old = old[1:]
		}
		if t.odd(x.insert) {
			b, err := t.alloc(p.id, mem.Bytes(1+t.r.IntN(200))*512*mem.Bytes(1+t.r.IntN(20)))
			if err != nil {
				return nil, err
			}
			if b.addr != 0 {
				*held = append(*held, b)
			}
		}
		if t.odd(x.swap) {
			t.swap(p.id)
		}
		if t.odd(x.jump) {
			return got, t.rest(at, append(old, *held...), held)
		}
		if !t.odd(x.skip) {
			b, err := t.alloc(p.id, size-mem.Bytes(t.r.IntN(100)))
			if err != nil {
				return nil, fmt.Errorf("request %d: %w", i, err)
			}
			if b.addr == 0 { // refused: the device is full, or fails
				continue
			}
			at[i] = b
			got = append(got, placed{mem.Round(size), b.addr})
			if t.odd(x.record) {
				if err := t.record(b, p.id+100); err != nil {
					return nil, err
				}
			}
		}
		for _, f := range p.frees[i] {
			if b, ok := at[f]; ok {
				delete(at, f)
				if err := drop(b); err != nil {
					return nil, fmt.Errorf("free after request %d: %w", i, err)
				}
			}
		}
		if len(t.fences) > 0 && t.odd(x.pass) {
			if err := t.pass(t.r.IntN(len(t.fences))); err != nil {
				return nil, err
			}
		}
		if t.odd(x.goes) {
			if err := t.same(); err != nil {
				return nil, err
			}
		}
	}
	return got, t.rest(at, append(old, *held...), held)
}

type placed struct {
	size mem.Bytes
	addr mem.Addr
}

// rest keeps what lives for the next step.
func (t *twins) rest(at map[int]block, old []block, held *[]block) error {
	*held = old
	for i := range 10000 {
		if b, ok := at[i]; ok {
			*held = append(*held, b)
		}
	}
	return nil
}

// entriesOf are the offsets that a step was served at, or near: a plan moves things.
func (t *twins) entriesOf(got []placed, move int) (entries [2][]schedule.Entry) {
	for _, x := range got {
		small := 0
		if x.size <= t.cfg.SmallLimit {
			small = 1
		}
		at := uint64(x.addr-t.cfg.Base) / uint64(mem.Grain)
		if t.odd(move) {
			at += uint64(t.r.IntN(40))
		}
		if t.odd(move / 4) {
			at = 0
		}
		entries[small] = append(entries[small], schedule.Of(uint64(x.size/mem.Grain), at))
	}
	return entries
}

// life runs programs of three streams for some steps.
func (t *twins) life(steps, requests int, x noise, move int) error {
	programs := [3]*program{}
	var held [3][]block
	last := [3][]placed{}
	for i := range programs {
		programs[i] = t.program(mem.StreamID(i), 1+t.r.IntN(requests))
	}
	for step := range steps {
		for i, p := range programs {
			if step == 2 || step > 0 && !x.regular && t.r.IntN(12) == 0 {
				for small, entries := range t.entriesOf(last[i], move) {
					t.play(p.id, small, entries)
				}
			}
			got, err := t.run(p, x, &held[i])
			if err != nil {
				return fmt.Errorf("step %d, stream %d: %w", step, i, err)
			}
			last[i] = got
		}
		if err := t.boundary(); err != nil {
			return err
		}
		if x.trim {
			if _, err := t.both(engine.Event{Kind: engine.EvTrim}); err != nil {
				return err
			}
		}
		if t.r.IntN(3) == 0 {
			if err := t.same(); err != nil {
				return fmt.Errorf("after step %d: %w", step, err)
			}
		}
	}
	return t.same()
}
