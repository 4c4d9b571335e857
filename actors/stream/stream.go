// Package stream has the stream actors: each owns the schedules of one CUDA stream and the cursors
// in them, and tells where a request of that stream is planned. A Table holds what is known of all
// streams of a device.
package stream

import (
	"fmt"
	"sync/atomic"

	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Env is what streams need of the device.
type Env struct {
	host.Lock
	host.Cursors
	System *inline.System
	Base   mem.Addr  // of the address window
	Small  mem.Bytes // requests up to this have an arena of their own
}

// Schedules are what the cursors of a stream follow: for large and for small requests.
type Schedules = [schedule.Cursors]*host.Schedule

// Stream is what is known of a stream.
type Stream struct {
	ID      mem.StreamID
	Ordinal int // in the order of first requests

	actor     *actor // nil: it never had a schedule. Only the supervisor looks
	schedules Schedules
	planned   atomic.Bool // whether there are any, to be read without the lock
}

// Planned reports whether the stream has a schedule.
func (s *Stream) Planned() bool { return s.planned.Load() }

// Schedules returns what its cursors follow. Nobody changes that meanwhile: a boundary does.
func (s *Stream) Schedules() Schedules { return s.schedules }

// Request asks where a request of a stream is planned.
type Request struct {
	inline.Answer
	Size   mem.Bytes // asked for
	Stream mem.StreamID
	Cursor int      // answer: that of small or of large requests
	At     mem.Addr // answer: 0: anywhere
}

// actor serves the requests of one stream against the plan. It outlives its stream and is used
// again, because protoactor drops what was already sent to an actor that is stopped.
type actor struct {
	env    *Env
	pid    *inline.PID
	stream *Stream // nil: it is free. Under the host's lock
}

// Receive implements inline.Actor. It answers whatever happens.
func (a *actor) Receive(message any) {
	if q, ok := message.(inline.Question); ok {
		inline.Reply(q, a.answer(q))
	}
}

// answer does what is asked for. A panic leaves the stream without a schedule: it is served all the
// same.
func (a *actor) answer(q inline.Question) (err error) {
	a.env.Lock.Lock()
	defer a.env.Unlock()
	s := a.stream
	if s == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("stream %#x: %v", uint64(s.ID), r)
			defer func() { _ = recover() }() // what has failed once may fail here, too
			a.set(s, Schedules{})
		}
	}()
	switch m := q.(type) {
	case *Request:
		if m.Stream == s.ID { // else the stream was forgotten meanwhile
			e := a.env.Next(s.ID, m.Cursor, uint64(mem.Round(m.Size)/mem.Grain))
			if at := e.Place(); at != 0 {
				m.At = a.env.Base + mem.Addr(at)*mem.Addr(mem.Grain)
			}
		}
	case *change:
		a.set(s, m.to)
	}
	return nil
}

// change gives a stream its schedules.
type change struct {
	inline.Answer
	to Schedules
}

// set points the stream's cursors at the first entries of schedules.
func (a *actor) set(s *Stream, to Schedules) {
	s.schedules = to
	s.planned.Store(to != Schedules{})
	for i, x := range to {
		a.env.SetSchedule(s.ID, i, x)
	}
}
