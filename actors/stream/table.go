package stream

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Table holds the streams of a device. Any thread may look a stream up; only the supervisor adds,
// updates and forgets streams.
type Table struct {
	env    Env
	all    atomic.Pointer[[]*Stream] // in the order of first requests
	byID   sync.Map
	added  int      // so far
	unused []*actor // of streams that are forgotten
	gone   struct {
		hits, misses uint64 // of streams that are forgotten; under the host's lock
	}
}

// NewTable makes a table without streams.
func NewTable(env Env) *Table {
	t := &Table{env: env}
	t.all.Store(&[]*Stream{})
	return t
}

// All returns the streams in the order of their first requests.
func (t *Table) All() []*Stream { return *t.all.Load() }

// Of returns what is known of a stream; nil before its first request and once it is forgotten.
func (t *Table) Of(id mem.StreamID) *Stream {
	s, _ := t.byID.Load(id)
	found, _ := s.(*Stream)
	return found
}

// Add makes a stream known.
func (t *Table) Add(id mem.StreamID) {
	if t.Of(id) != nil {
		return
	}
	t.env.Lock.Lock()
	defer t.env.Unlock()
	s := &Stream{ID: id, Ordinal: t.added}
	hits, misses := t.env.Served(id)
	t.gone.hits, t.gone.misses = t.gone.hits-hits, t.gone.misses-misses // it was known before
	t.added++
	all := append(slices.Clip(t.All()), s)
	t.byID.Store(id, s)
	t.all.Store(&all)
}

// Keep reports whether a stream is to be known though it holds nothing: it has a schedule, or its
// requests tell steps apart. Locked.
func (t *Table) Keep(id mem.StreamID) bool {
	s := t.Of(id)
	return s != nil && (s.Ordinal == 0 || s.schedules != Schedules{})
}

// Forget drops streams that hold nothing any more and have no schedule. One with a request under
// way is added again by the next.
func (t *Table) Forget(ids []mem.StreamID) {
	if len(ids) == 0 {
		return
	}
	t.env.Lock.Lock()
	defer t.env.Unlock()
	for _, id := range ids {
		if s := t.Of(id); s != nil {
			hits, misses := t.env.Served(id)
			t.gone.hits, t.gone.misses = t.gone.hits+hits, t.gone.misses+misses
			t.byID.Delete(id)
			if s.actor != nil {
				s.actor.stream = nil
				t.unused = append(t.unused, s.actor)
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(t.All()),
		func(s *Stream) bool { return t.Of(s.ID) != s })
	t.all.Store(&left)
}

// Look asks a stream's actor where a request is planned.
func (t *Table) Look(s *Stream, r *Request) error {
	if r.Cursor = schedule.Large; mem.Round(r.Size) <= t.env.Small {
		r.Cursor = schedule.Small
	}
	if !s.Planned() {
		return nil
	}
	t.env.System.Ask(s.actor.pid, r)
	return r.Err
}

// Update gives streams schedules where edit says so: others, or the same ones to begin again.
func (t *Table) Update(edit func(*Stream, *Schedules) bool) (err error) {
	for _, s := range t.All() {
		var to Schedules
		if s.Planned() { // nearly none, where a program makes a stream for each piece of work
			t.env.Lock.Lock()
			to = s.schedules
			t.env.Unlock()
		}
		if !edit(s, &to) {
			continue
		}
		if s.actor == nil {
			t.attachActor(s)
		}
		m := &change{to: to}
		t.env.System.Ask(s.actor.pid, m)
		err = errors.Join(err, m.Err)
	}
	return err
}

// attachActor gives a stream an actor: one of a forgotten stream, or a new one.
func (t *Table) attachActor(s *Stream) {
	a := &actor{env: &t.env}
	if n := len(t.unused); n > 0 {
		a, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		a.pid = t.env.System.Spawn(a)
	}
	t.env.Lock.Lock()
	defer t.env.Unlock()
	a.stream, s.actor = s, a
}

// Served returns how many requests of all streams were served at their planned offsets, and how
// many elsewhere.
func (t *Table) Served() (hits, misses uint64) {
	t.env.Lock.Lock()
	defer t.env.Unlock()
	hits, misses = t.gone.hits, t.gone.misses
	for _, s := range t.All() {
		h, m := t.env.Served(s.ID)
		hits, misses = hits+h, misses+m
	}
	return hits, misses
}
