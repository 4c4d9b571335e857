package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// lane is the actor of one stream. It serves the stream's requests against the plan: it says
// where each is wished.
type lane struct {
	id      mem.StreamID
	ordinal int // in the order of first requests
	pid     *actor.PID
	host    Host
	small   mem.Bytes     // requests up to this have a space, and a tape, of their own
	base    mem.Addr      // of the address window
	heap    atomic.Uint32 // its number in the log; 0: nothing was served yet
	tapes   *[wish.Tapes]wish.Tape
	wishes  [2]atomic.Bool // whether those for large and for small requests have entries, to be read without the lock
	// With the plan of an earlier run: the steps that follow the beginning, and behind how
	// many boundaries.
	step  [2]*Reel
	least [2]leastLive
	until int
	left  bool     // the run is another
	reels [2]*Reel // that the next steps are served from; nil: none
}

// leastLive says how much was live in a space before each request of an earlier run's plan: with
// less than that, the run is another one. Of the list that is served, and of its step.
type leastLive struct{ now, step []mem.Bytes }

// adopt makes the lane of a stream, and its actor. Only the supervisor calls it.
func (d *Device) adopt(id mem.StreamID) *lane {
	lanes := *d.lanes.Load()
	d.host.Lock()
	l := &lane{id: id, ordinal: len(lanes), host: d.host, small: d.small, base: d.base, tapes: d.host.Tapes(id)}
	d.host.Unlock()
	l.pid = d.root.Spawn(onCaller(func() actor.Actor { return l }))
	lanes = append(lanes[:len(lanes):len(lanes)], l)
	d.lanes.Store(&lanes)
	return l
}

// laneOf returns the lane of a stream, nil before its first request.
func (d *Device) laneOf(id mem.StreamID) *lane {
	for _, l := range *d.lanes.Load() {
		if l.id == id {
			return l
		}
	}
	return nil
}

// Receive implements actor.Actor. It answers whatever happens.
func (l *lane) Receive(ctx actor.Context) {
	if q, ok := ctx.Message().(question); ok {
		q.slot().reply(l.answer(q))
	}
}

func (l *lane) answer(q question) (err error) {
	l.host.Lock()
	defer l.host.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("stream %#x: %v", uint64(l.id), r)
			l.giveUp()
		}
	}()
	switch m := q.(type) {
	case *allocRequest:
		l.look(m)
	case *order[*lane]:
		err = m.do(l)
		for i := range l.wishes {
			l.wishes[i].Store(len(l.tapes[i].Entries) > 0)
		}
	}
	return err
}

// look says where a request is wished.
func (l *lane) look(m *allocRequest) {
	t := &l.tapes[m.small]
	if at := t.Next(uint64(mem.Round(m.size) / mem.Grain)).Place(); at != 0 {
		m.wish = l.base + mem.Addr(at)*mem.Addr(mem.Grain)
	}
	if n := int(t.Cursor) - 1; m.wish != 0 && n < len(l.least[m.small].now) {
		m.least = l.least[m.small].now[n]
	}
	m.strayed = strayed(t)
	l.left = l.left || m.strayed && l.until > 0
}

// open begins with an earlier run's plan: so many boundaries with the first lists, then its
// step.
func (l *lane) open(first, step [2]*Reel, least [2]leastLive, boundaries int) {
	l.step, l.least, l.until = step, least, boundaries
	for i, r := range first {
		l.host.Serve(l.id, i, r)
	}
}

// serve has other wishes than before from now on.
func (l *lane) serve(tape int, r *Reel) {
	l.reels[tape], l.least[tape] = r, leastLive{}
	l.host.Serve(l.id, tape, r)
}

// A step that has left out more entries than that is another than the tape's: memory is not
// to grow for the sake of its wishes, and where it is a run's beginning, its steps will be
// others, too.
const mostSkipped = 64

func strayed(t *wish.Tape) bool { return uint64(t.Cursor) > t.Matched+mostSkipped }

// giveUp leaves the stream without wishes: it is served all the same. What has failed
// once may fail here, too, and who has asked waits for an answer.
func (l *lane) giveUp() {
	defer func() { _ = recover() }()
	for i := range l.reels {
		l.serve(i, nil)
	}
}

// ended begins the tapes again, but for those of a run's beginning, which span several
// boundaries.
func (l *lane) ended() error {
	if l.until > 0 {
		for i := range l.wishes {
			l.left = l.left || strayed(&l.tapes[i])
		}
		if l.until--; l.until > 0 {
			return nil
		}
		for i, r := range l.step {
			if !l.left {
				l.reels[i] = r
			}
		}
		l.step = [2]*Reel{}
		for i := range l.least {
			l.least[i].now = l.least[i].step
		}
	}
	for i, r := range l.reels {
		l.host.Serve(l.id, i, r)
	}
	return nil
}

// smallOf returns 1 for a small request, 0 for a large one: the numbers of their tapes.
func smallOf(rounded, small mem.Bytes) int {
	if rounded <= small {
		return 1
	}
	return 0
}
