// Package mover has closed regions leave and come back beside the program: it looks every two
// milliseconds whether copies have passed, and brings a region back ahead of its next use.
//
//	EndAwake          load of the program over time              BeginAwake
//	   |  ____/‾‾‾‾‾‾‾\____/‾‾‾‾‾‾‾\___                              |
//	   |                               \__________                  |
//	   | leaves                         | comes back as the load falls
//
// When that begins is a matter of the last times that the region was away (residency.SafeStart):
// as early as from then on the load and what has come back never exceed what may be held. If the
// program asks for more all the same, what has come back leaves again, without a copy; and what has
// not come back when the program opens the region, it waits for.
package mover

import (
	"sync"
	"time"

	"stalloc/actors/pool"
	"stalloc/internal/mem"
	"stalloc/plan/residency"
)

// Env is what the mover needs of the device.
type Env struct {
	Clock pool.Clock
	Load  func() mem.Bytes // of live blocks
	// OnPool runs a function on the pool.
	OnPool func(func(*pool.Pool) error) error
	Go     func(func()) // begins a thread of its own
}

// Mover is the thread, and what it knows of each region.
type Mover struct {
	Env
	mu      sync.Mutex
	regions map[uint64]*region
	running bool
	stop    bool
	rate    int64 // of the link, in bytes a second
}

// region is what is known of one that is closed.
type region struct {
	closed bool
	since  time.Duration      // when it was closed last
	load   []residency.Load   // since then
	before [][]residency.Load // in the last times that it was closed
	begin  residency.Nanos    // when it begins to come back
	knows  bool               // begin is known
	tried  time.Duration      // when it was fetched last
}

const (
	interval = 2 * time.Millisecond // between two looks
	retry    = 10 * time.Millisecond
	history  = 2 // times that a region was closed
	// spare is the part of what may be held that the load is taken for more.
	spare = 64
	// linkRate is what fourth-generation PCIe carries. Where the link is faster the memory is taken
	// earlier than it need be.
	linkRate = 20e9
	// worthwhile is the least that is fetched by itself.
	worthwhile = 128 * mem.MiB
)

// New makes a mover. Its thread begins with the first region.
func New(env Env) *Mover { return &Mover{Env: env, regions: map[uint64]*region{}, rate: linkRate} }

// Closed says that a region was closed.
func (m *Mover) Closed(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.regions[n]
	if r == nil {
		r = &region{}
		m.regions[n] = r
	}
	r.closed, r.since, r.tried = true, m.Clock.Now(), 0
	r.load = r.load[:0]
	if !m.running && !m.stop {
		m.running = true
		m.Go(m.run)
	}
}

// Opened says that a region was opened.
func (m *Mover) Opened(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.regions[n]
	if r == nil || !r.closed {
		return
	}
	r.closed, r.knows = false, false
	r.before = append(r.before, r.load)
	r.load = nil
	if extra := len(r.before) - history; extra > 0 {
		r.before = r.before[extra:]
	}
}

// Stop ends the thread.
func (m *Mover) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop = true
}

// run looks again and again, until no region is closed.
func (m *Mover) run() {
	for m.look() {
		m.Clock.Sleep(interval)
	}
}

// look returns false if there is nothing left to look at.
func (m *Mover) look() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, load, any := m.Clock.Now(), m.Load(), false
	for n, r := range m.regions {
		if r.closed && !m.stop {
			any = true
			m.lookAt(n, r, now, load)
		}
	}
	m.running = any
	return any
}

// lookAt notes the load, and fetches the region if it is time.
func (m *Mover) lookAt(n uint64, r *region, now time.Duration, load mem.Bytes) {
	at := residency.Nanos(now - r.since)
	if k := len(r.load); k == 0 || r.load[k-1].Bytes != load {
		r.load = append(r.load, residency.Load{From: at, Bytes: load})
	}
	_ = m.OnPool(func(p *pool.Pool) error {
		leaving := p.Settle()
		_, out, open := p.Away(n)
		most := p.MostHeld()
		if most -= most / spare; open || leaving || out == 0 || most == 0 || len(r.before) == 0 {
			return nil
		}
		// The load has all live blocks, those of the region among them.
		if most += out; !r.knows {
			r.begin, r.knows = residency.SafeStart(residency.Worst(r.before...), 0, most, out,
				m.rate)
		}
		if !r.knows || at < r.begin || now-r.tried < retry || load+min(out, worthwhile) > most {
			return nil
		}
		r.tried = now
		return p.Prefetch(n)
	})
}
