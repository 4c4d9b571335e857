package actors

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// streamActor serves the requests of one stream against the plan. A stream has one from its first
// plan on. When it is forgotten the actor is another one's: who stops an actor loses what it is
// asked just then.
type streamActor struct {
	pid    *actor.PID
	d      *Device
	stream *stream // nil: it is free. Under the host's lock
}

// stream is what is known of a stream: what it is served from.
type stream struct {
	*streamActor // nil: it never had a plan. Only the supervisor looks

	id        mem.StreamID
	ordinal   int                         // in the order of first requests
	schedules [schedule.Cursors]*Schedule // that its steps are served from; nil: none
	planned   atomic.Bool                 // whether there are any, to be read without the lock
}

// adopt makes what is known of a stream. Only the supervisor calls it.
func (d *Device) adopt(id mem.StreamID) {
	d.host.Lock()
	defer d.host.Unlock()
	l := &stream{id: id, ordinal: d.adopted}
	hits, misses := d.host.Served(id)
	d.gone.hits, d.gone.misses = d.gone.hits-hits, d.gone.misses-misses // it was known before
	d.adopted++
	streams := append(slices.Clip(*d.streams.Load()), l)
	d.streamAt.Store(id, l)
	d.streams.Store(&streams)
}

// streamOf returns what is known of a stream, nil before its first request and once it is
// forgotten.
func (d *Device) streamOf(id mem.StreamID) *stream {
	l, _ := d.streamAt.Load(id)
	found, _ := l.(*stream)
	return found
}

// forget drops the streams that hold nothing any more and have no schedule. One whose
// request is under way is made anew with the next.
func (d *Device) forget(gone []mem.StreamID) {
	if len(gone) == 0 {
		return
	}
	d.host.Lock()
	defer d.host.Unlock()
	for _, id := range gone {
		if l := d.streamOf(id); l != nil {
			hits, misses := d.host.Served(id)
			d.gone.hits, d.gone.misses = d.gone.hits+hits, d.gone.misses+misses
			d.streamAt.Delete(id)
			if a := l.streamActor; a != nil {
				a.stream = nil
				d.unused = append(d.unused, a)
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(*d.streams.Load()),
		func(l *stream) bool { return d.streamOf(l.id) != l })
	d.streams.Store(&left)
}

// kept reports whether a stream is to be known though it holds nothing: it has a schedule, or its
// requests tell steps apart. Locked.
func (d *Device) kept(id mem.StreamID) bool {
	l := d.streamOf(id)
	return l != nil && (l.ordinal == 0 || l.schedules != [schedule.Cursors]*Schedule{})
}

// Receive implements actor.Actor. It answers whatever happens.
func (a *streamActor) Receive(ctx actor.Context) {
	if q, ok := ctx.Message().(question); ok {
		q.slot().reply(a.answer(q))
	}
}

// answer does what is asked for. A panic leaves the stream without a schedule: it is served all the
// same.
func (a *streamActor) answer(q question) (err error) {
	a.d.host.Lock()
	defer a.d.host.Unlock()
	l := a.stream
	if l == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("stream %#x: %v", uint64(l.id), r)
			defer func() { _ = recover() }() // what has failed once may fail here, too
			l.play([schedule.Cursors]*Schedule{})
		}
	}()
	switch m := q.(type) {
	case *allocRequest:
		if m.stream == l.id { // else the stream was forgotten meanwhile
			m.planned = a.d.addr(a.d.host.Next(l.id, m.small,
				uint64(mem.Round(m.size)/mem.Grain)).Place())
		}
	case *order[*stream]:
		return m.do(l)
	}
	return nil
}

// addr is where a place of the range lies; 0 is none.
func (d *Device) addr(place uint64) mem.Addr {
	if place == 0 {
		return 0
	}
	return d.base + mem.Addr(place)*mem.Addr(mem.Grain)
}

// play has the stream's cursors begin other schedules than before, or the same again.
func (l *stream) play(schedules [schedule.Cursors]*Schedule) {
	l.schedules = schedules
	l.planned.Store(schedules != [schedule.Cursors]*Schedule{})
	for i, r := range schedules {
		l.d.host.Serve(l.id, i, r)
	}
}

// employ gives a stream an actor.
func (d *Device) employ(l *stream) {
	a := &streamActor{d: d}
	if n := len(d.unused); n > 0 {
		a, d.unused = d.unused[n-1], d.unused[:n-1]
	} else {
		a.pid = d.root.Spawn(onCaller(func() actor.Actor { return a }))
	}
	d.host.Lock()
	defer d.host.Unlock()
	a.stream, l.streamActor = l, a
}

// playing has a stream's actor do that; change says what is played from now on. Only the
// supervisor calls it.
func (d *Device) playing(l *stream, change func(*[schedule.Cursors]*Schedule)) error {
	if l.streamActor == nil {
		d.employ(l)
	}
	return tell(d, l.pid, func(l *stream) error {
		schedules := l.schedules
		change(&schedules)
		l.play(schedules)
		return nil
	})
}

// smallOf returns 1 for a small request, 0 for a large one: the numbers of their cursors.
func smallOf(rounded, small mem.Bytes) int {
	if rounded <= small {
		return schedule.Small
	}
	return schedule.Large
}
