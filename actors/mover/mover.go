// Package mover moves closed regions out and back while the program runs: it checks again and
// again whether copies are done, and brings a region back before its next use, a few handles at a
// time.
//
//	EndAwake          load of the program over time              BeginAwake
//	   |  ____/‾‾‾‾‾‾‾\____/‾‾‾‾‾‾‾\___                              |
//	   |                               \__________                  |
//	   | leaves                         | comes back as the load falls
//
// It begins to come back as soon as all of it fits beside the load until its next use, judging by
// the last times that it was away. Some of it would often fit earlier, but idle memory makes way
// for all of it at once, and the program would miss that memory. Steps vary in time, so the moment
// is counted in requests and frees. If the program needs more memory all the same, what has come
// back leaves again, without a copy. When the program opens the region, it waits for what has not
// come back. Of several regions the one that was opened longest ago is expected first: room is kept
// for it before others come back.
package mover

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"stalloc/actors/pool"
	"stalloc/internal/mem"
)

// Env is what the mover needs of the device.
type Env struct {
	Clock pool.Clock
	// Load returns what is live, and its peak since the last call. The pool is locked.
	Load func() (now, most mem.Bytes)
	// OnPool runs a function on the pool.
	OnPool func(func(*pool.Pool) error) error
	Go     func(func()) // starts a goroutine
}

// Mover is the thread, and its state for each region. The state is the pool actor's: Closed, Opened
// and Stop are called there.
type Mover struct {
	Env
	regions map[uint64]*region
	running bool
	stop    bool
	opened  uint64    // openings so far
	low     mem.Bytes // the least load since a region was closed last
	rose    bool      // and since then it rose, as by a large request
}

// region is the mover's state for a region that was closed.
type region struct {
	closed bool
	moves  bool      // something has left, or leaves, since it was closed
	now    run       // since it was closed last
	before []run     // the last times that it was closed
	begin  uint64    // it begins to come back after so many requests and frees
	rest   mem.Bytes // the load for which begin was found, 0: it was not
	start  uint64    // requests and frees before it was closed
	opened uint64    // the number of its last opening
}

const (
	// Time between two checks: while a region leaves or soon comes back; while it comes back; and
	// otherwise. Each check takes the pool's lock from the program, which has to take it again.
	interval = 2 * time.Millisecond
	soon     = interval / 8
	idle     = 4 * interval
	// atOnce is how much comes back at a time: the program's requests wait meanwhile.
	atOnce  = 64 * mem.MiB
	history = 2 // times that a region was closed
)

// New makes a mover. Its thread starts when the first region is closed.
func New(env Env) *Mover { return &Mover{Env: env, regions: map[uint64]*region{}} }

// Closed says that a region was closed, after so many requests and frees of the program.
func (m *Mover) Closed(n, logged uint64) {
	load := m.note(logged)
	r := m.regions[n]
	if r == nil {
		r = &region{}
		m.regions[n] = r
	}
	r.closed, r.moves, r.start = true, false, logged
	r.now = run{}
	r.note(load, load, logged)
	m.low, m.rose = load, false
	if !m.running && !m.stop {
		m.running = true
		m.Go(m.run)
	}
}

// Opened says that a region was opened, after so many requests and frees of the program.
func (m *Mover) Opened(n, logged uint64) {
	r := m.regions[n]
	if r == nil || !r.closed {
		return
	}
	m.note(logged)
	m.opened++
	r.closed, r.rest, r.opened = false, 0, m.opened
	if r.now.end = logged - r.start; r.moves {
		r.before = append(r.before, r.now)
	}
	r.now = run{}
	if extra := len(r.before) - history; extra > 0 {
		r.before = r.before[extra:]
	}
}

// Stop ends the thread.
func (m *Mover) Stop() { m.stop = true }

func (m *Mover) run() {
	for next := m.look(); next > 0; next = m.look() {
		m.Clock.Sleep(next)
	}
}

// look checks all closed regions, and returns the time until the next check, 0 if nothing of any
// has left. What leaves later, because a request is short of memory, comes back when the region is
// opened.
func (m *Mover) look() (next time.Duration) {
	_ = m.OnPool(func(p *pool.Pool) error {
		if !m.stop {
			next = m.lookAt(p, m.note(p.Logged()))
		}
		m.running = next > 0
		return nil
	})
	return next
}

// note records the load for each closed region, and returns it.
func (m *Mover) note(logged uint64) mem.Bytes {
	load, high := m.Load()
	m.rose = m.rose || high >= m.low+pool.Large
	m.low = min(m.low, load)
	for _, r := range m.regions {
		if r.closed {
			r.note(load, high, logged)
		}
	}
	return load
}

// lookAt brings some of a region back if it is time, at this load.
func (m *Mover) lookAt(p *pool.Pool, load mem.Bytes) time.Duration {
	next, any := idle, false
	if m.rose {
		p.Leave()
	}
	leaving, kept := p.Settle(), mem.Bytes(0)
	maps.DeleteFunc(m.regions, func(n uint64, _ *region) bool { return !p.Lends(n) })
	for _, n := range m.expected() {
		r := m.regions[n]
		c, closed := p.Closed(n)
		if !closed {
			continue
		}
		r.moves = r.moves || c.Leaving > 0 || c.Away > 0
		any = any || r.moves || c.Due
		switch most := p.MostHeld(); {
		case leaving || c.Due || r.moves && len(r.before) == 0:
			next = min(next, interval)
		case c.Away > 0 && most > 0 && next != soon:
			// The load counts live blocks, even those that are away; what is held is more.
			most += c.Out - kept - max(c.Wanted-peak(r.before), 0)
			next = min(next, r.comesBack(p, n, load, most, c.Away))
		}
		kept += c.Away
	}
	if !any {
		return 0
	}
	return next
}

// expected returns the closed regions, first the one that was opened longest ago.
func (m *Mover) expected() (closed []uint64) {
	for n, r := range m.regions {
		if r.closed {
			closed = append(closed, n)
		}
	}
	slices.SortFunc(closed, func(a, b uint64) int {
		return cmp.Compare(m.regions[a].opened, m.regions[b].opened)
	})
	return closed
}

// comesBack brings some of a region back if it is time, where load and region together may have
// most bytes. It returns the time until the next check.
func (r *region) comesBack(
	p *pool.Pool, n uint64, load, most, away mem.Bytes,
) (next time.Duration) {
	done := p.Logged() - r.start
	if rest := most - away; r.rest != rest { // which is the same while it comes back
		r.begin, r.rest = begin(r.before, most, away), rest
	}
	next = idle
	if done+done/8 >= r.begin {
		next = interval
	}
	if done < r.begin || load+away > most {
		return next
	}
	_ = p.Prefetch(n, atOnce)
	if c, _ := p.Closed(n); c.Away < away {
		next = soon
	}
	return next
}
