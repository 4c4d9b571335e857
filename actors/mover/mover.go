// Package mover has closed regions leave and come back beside the program: it looks every two
// milliseconds whether copies have passed, and brings a region back ahead of its next use.
//
//	EndAwake          load of the program over time              BeginAwake
//	   |  ____/‾‾‾‾‾‾‾\____/‾‾‾‾‾‾‾\___                              |
//	   |                               \__________                  |
//	   | leaves                         | comes back as the load falls
//
// When that begins is a matter of the last times that the region was away (residency.SafeStart):
// as early as from then on the load and what has come back never exceed what may be held. Steps
// take now more, now less time, so that moment is found again by how much the program has asked for
// and freed by then. If the program asks for more all the same, what has come back leaves again,
// without a copy; and what has not come back when the program opens the region, it waits for.
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
}

// region is what is known of one that is closed.
type region struct {
	closed bool
	moves  bool          // something has left, or leaves, since it was closed
	since  time.Duration // when it was closed last
	now    run           // since then
	before []run         // the last times that it was closed
	begin  uint64        // after so many requests and frees it begins to come back
	knows  bool          // begin is known
	start  uint64        // requests and frees before it was closed
}

// run is what the program did while a region was closed.
type run struct {
	load []residency.Load
	done []uint64 // requests and frees until each of load
}

const (
	interval = 2 * time.Millisecond // between two looks
	soon     = interval / 8         // while a region comes back
	// atOnce is what comes back at a time: the program's requests wait meanwhile.
	atOnce  = 64 * mem.MiB
	history = 2 // times that a region was closed
	// linkRate is what fourth-generation PCIe carries. Where the link is faster the memory is taken
	// earlier than it need be.
	linkRate = 20e9
)

// New makes a mover. Its thread begins with the first region.
func New(env Env) *Mover { return &Mover{Env: env, regions: map[uint64]*region{}} }

// Closed says that a region was closed, after so many requests and frees of the program.
func (m *Mover) Closed(n, logged uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.regions[n]
	if r == nil {
		r = &region{}
		m.regions[n] = r
	}
	r.closed, r.moves = true, false
	r.since, r.start = m.Clock.Now(), logged
	r.now = run{}
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
	if r.moves {
		r.before = append(r.before, r.now)
	}
	r.now = run{}
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
	for any, comes := m.look(); any; any, comes = m.look() {
		if comes {
			m.Clock.Sleep(soon)
		} else {
			m.Clock.Sleep(interval)
		}
	}
}

// look returns false if there is nothing left to look at: no region is closed, or nothing of them
// has left. What leaves later, since a request is short of memory, comes back with its use. comes:
// a part came back, and more may.
func (m *Mover) look() (any, comes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, load := m.Clock.Now(), m.Load()
	for n, r := range m.regions {
		if r.closed && !m.stop {
			comes = m.lookAt(n, r, now, load) || comes
			any = any || r.moves
		}
	}
	m.running = any
	return any, comes
}

// lookAt notes the load, and fetches the region if it is time.
func (m *Mover) lookAt(n uint64, r *region, now time.Duration, load mem.Bytes) (comes bool) {
	_ = m.OnPool(func(p *pool.Pool) error {
		leaving, done := p.Settle(), p.Logged()-r.start
		if k := len(r.now.load); k == 0 || r.now.load[k-1].Bytes != load {
			at := residency.Nanos(now - r.since)
			r.now.load = append(r.now.load, residency.Load{From: at, Bytes: load})
			r.now.done = append(r.now.done, done)
		}
		all, out, others, open := p.Away(n)
		most := p.MostHeld()
		r.moves = r.moves || leaving || out > 0
		if open || leaving || out == 0 || most == 0 || len(r.before) == 0 {
			return nil
		}
		// The load has all live blocks, those of the region among them; more than that is held.
		most += out - max(others+all-peak(r.before), 0)
		if !r.knows {
			r.begin, r.knows = begin(r.before, most, out), true
		}
		if done < r.begin || load+out > most {
			return nil
		}
		err := p.Prefetch(n, atOnce)
		_, left, _, _ := p.Away(n)
		comes = left < out
		return err
	})
	return comes
}

// begin returns after how many requests and frees size bytes may begin to come back: the latest of
// what the runs say, their end where they leave no room.
func begin(runs []run, limit, size mem.Bytes) (done uint64) {
	for _, x := range runs {
		at, ok := residency.SafeStart(x.load, 0, limit, size, linkRate)
		for i, n := range x.done {
			if ok && x.load[i].From >= at || i == len(x.done)-1 {
				done = max(done, n)
				break
			}
		}
	}
	return done
}

// peak returns the most of the loads.
func peak(runs []run) (most mem.Bytes) {
	for _, x := range runs {
		for _, l := range x.load {
			most = max(most, l.Bytes)
		}
	}
	return most
}
