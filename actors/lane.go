package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// lane is the state of one stream that outlives its actor.
type lane struct {
	id      mem.StreamID
	ordinal int // in the order of first requests
	pid     *actor.PID
	host    Host
	heap    atomic.Uint32 // its number in the log; 0: nothing was served yet
	tapes   *[wish.Tapes]wish.Tape
	wishes  [2]atomic.Bool // whether those for large and for small requests have entries, to be read without the lock
	// With the plan of an earlier run: the steps that follow the beginning, and behind how
	// many boundaries.
	step  [2]*Reel
	until int
	left  bool // the run is another
	// Of all kinds of step: the first serve from the boundary on.
	lists    [2][]*Reel
	patience [2]wish.Patience
}

// adopt returns the lane of a stream, made with its actor on first sight. Only the
// supervisor calls it.
func (d *Device) adopt(id mem.StreamID) *lane {
	if l := d.laneOf(id); l != nil {
		return l
	}
	lanes := *d.lanes.Load()
	d.host.Lock()
	l := &lane{id: id, ordinal: len(lanes), host: d.host, tapes: d.host.Tapes(id)}
	d.host.Unlock()
	small := d.small
	l.pid = d.root.Spawn(onCaller(func() actor.Actor { return &streamActor{lane: l, small: small} }))
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

// streamActor serves the requests of one stream against the plan: it says where each is
// wished.
type streamActor struct {
	*lane
	small mem.Bytes // requests up to this have a space, and a tape, of their own
}

// Receive implements actor.Actor. It answers whatever happens.
func (s *streamActor) Receive(ctx actor.Context) {
	if q, ok := ctx.Message().(question); ok {
		q.slot().reply(s.answer(q))
	}
}

func (s *streamActor) answer(q question) (err error) {
	s.host.Lock()
	defer s.host.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("stream %#x: %v", uint64(s.id), r)
			s.giveUp()
		}
	}()
	switch m := q.(type) {
	case *serveRequest:
		n := mem.Round(m.asked)
		m.small = smallOf(n, s.small)
		t := &s.tapes[m.small]
		m.planned = len(t.Entries) > 0
		if s.until == 0 && s.patience[m.small].Lost(t) {
			s.turn(m.small)
		}
		m.place = t.Next(uint64(n / mem.Grain)).Place()
		m.strayed = strayed(t)
		s.left = s.left || m.strayed && s.until > 0
		return nil
	case *boundary:
		s.ended()
	case *beginRequest:
		s.step, s.until = m.step, m.boundaries
		for i, r := range m.first {
			s.host.Serve(s.id, i, r)
		}
	case *wishRequest:
		for i, lists := range m.lists {
			if lists != nil {
				s.lists[i] = lists
				s.begin(i)
			}
		}
	}
	for i := range s.wishes {
		s.wishes[i].Store(len(s.tapes[i].Entries) > 0)
	}
	return nil
}

// A step that has left out more entries than that is another than the tape's: memory is not
// to grow for the sake of its wishes, and where it is a run's beginning, its steps will be
// others, too.
const mostSkipped = 64

// begin begins the first list. C asks where the program leaves it, if there are others to go
// on with.
func (s *streamActor) begin(small int) {
	var first *Reel
	if lists := s.lists[small]; len(lists) > 0 {
		first = lists[0]
	}
	s.host.Serve(s.id, small, first)
	if len(s.lists[small]) > 1 {
		s.patience[small].Begin(&s.tapes[small])
	}
}

// turn has the tape go on with the list of another kind of step, if one has the last
// requests: an evaluation began in the middle of a step, for example.
func (s *streamActor) turn(small int) {
	t, heap := &s.tapes[small], s.heap.Load()
	var last []uint64
	events := s.host.Events()
	for i := len(events) - 1; i >= 0 && len(last) < wish.MostLast; i-- {
		ev := events[i]
		size := ev.Size()
		served := ev.Kind() == wish.EventHit || ev.Kind() == wish.EventMiss
		if served && uint32(ev.Stream()) == heap && smallOf(mem.Bytes(size)*mem.Grain, s.small) == small {
			last = append(last, size)
		}
	}
	lists := make([][]wish.Entry, len(s.lists[small]))
	for i, r := range s.lists[small] {
		if r != nil {
			lists[i] = r.Entries
		}
	}
	list, at := t.Find(last, lists)
	if list < 0 {
		return
	}
	s.host.Serve(s.id, small, s.lists[small][list])
	t.Resume(at)
	s.patience[small].Begin(t)
}

func strayed(t *wish.Tape) bool { return uint64(t.Cursor) > t.Matched+mostSkipped }

// giveUp leaves the stream without wishes: it is served all the same. What has failed
// once may fail here, too, and who has asked waits for an answer.
func (s *streamActor) giveUp() {
	defer func() { _ = recover() }()
	s.lists = [2][]*Reel{}
	for i := range s.wishes {
		s.host.Serve(s.id, i, nil)
	}
}

// ended begins the tapes again, but for those of a run's beginning, which span several
// boundaries.
func (s *streamActor) ended() {
	if s.until > 0 {
		for i := range s.wishes {
			s.left = s.left || strayed(&s.tapes[i])
		}
		if s.until--; s.until > 0 {
			return
		}
		for i, r := range s.step {
			if !s.left {
				s.lists[i] = []*Reel{r}
			}
		}
		s.step = [2]*Reel{}
	}
	for i := range s.wishes {
		s.begin(i)
	}
}

// smallOf returns 1 for a small request, 0 for a large one: the numbers of their tapes.
func smallOf(rounded, small mem.Bytes) int {
	if rounded <= small {
		return 1
	}
	return 0
}
