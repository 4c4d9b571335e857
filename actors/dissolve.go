package actors

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// dissolve stops serving a stream from its plan and gives the arena to the pool.
// Blocks that live in it become the pool's where they lie; only what persists
// keeps its slots, and the arena so much memory. It reports whether there was
// anything to give.
func (s *supervisor) dissolve(l *lane) bool {
	a := l.serving
	if a == nil {
		return false
	}
	m := &dissolveRequest{arena: a, parts: a.parts}
	if m.size, m.keep = l.stop(s.d.opts.GMLake != nil); m.size == a.bytes() {
		return false
	}
	if s.d.ask(s.d.pool, m); m.err != nil {
		s.d.log.Error("an arena could not be given to the pool", zap.Error(m.err))
		return false
	}
	a.parts = a.parts[:0]
	if m.size > 0 {
		a.parts = append(a.parts, a.base)
	}
	a.size.Store(int64(m.size))
	return true
}

// stop has the lane's arena serve nothing more. It returns how much of it stays an arena,
// in whole pages if need be, and the blocks that live above.
func (l *lane) stop(whole bool) (stays mem.Bytes, above []engine.Range) {
	l.port.Lock()
	defer l.port.Unlock()
	a := l.serving
	a.lost()
	if a.prologue > 0 { // this run does not begin as the earlier one did
		l.plan = nil
	}
	l.active.Store(false)
	l.serving = nil
	l.port.Serve(nil, nil)
	live := a.tape.Leave()
	stays = remains(live, whole)
	for _, from := range live {
		if at := mem.Bytes(from.Slot.Offset); at >= stays {
			above = append(above, engine.Range{Addr: a.base + mem.Addr(at), Size: mem.Bytes(from.Asked)}) // a slot may be larger
		}
	}
	return stays, above
}

// remains returns how much of an arena must stay one: up to the last block that
// persists, and the rest of its page. But where a block that begins in that rest ends
// behind it, a guest behind the weights say, all of the rest is the pool's. With whole
// only pages can stay, and then such blocks do, too.
//
// It sorts the blocks by their offsets.
func remains(live []stream.Adopted, whole bool) mem.Bytes {
	persists := topOf(live)
	top := mem.RoundUp(persists, mem.HandleSize)
	slices.SortFunc(live, func(a, b stream.Adopted) int { return cmp.Compare(a.Slot.Offset, b.Slot.Offset) })
	for _, l := range live {
		at := mem.Bytes(l.Slot.Offset)
		end := at + mem.Round(mem.Bytes(l.Asked))
		switch {
		case at >= top || end <= top:
		case whole:
			top = mem.RoundUp(end, mem.HandleSize)
		default:
			return persists
		}
	}
	return top
}

// release takes slots off the tape that the pool has made blocks of its own. It
// returns those that were freed meanwhile, and which streams use the others.
func (a *arena) release(taken []engine.Range) (freed []mem.Addr, used map[mem.Addr][]mem.StreamID) {
	port := a.lane.port
	port.Lock()
	defer port.Unlock()
	used = make(map[mem.Addr][]mem.StreamID)
	for _, r := range taken {
		found, pinned := a.tape.Forget(r.Addr)
		if !found {
			freed = append(freed, r.Addr)
		}
		if pinned {
			port.Pinned(a.tape, -1)
			used[r.Addr] = a.users(r.Addr)
		}
	}
	return freed, used
}

// nothing is the tape of an arena that is gone, for those who found it before.
var nothing = func() *stream.Tape {
	l, err := stream.Lay(nil, nil)
	if err != nil {
		panic(err)
	}
	return stream.New(l, 0)
}()

// retire gives up former arenas that hold nothing any more. Their addresses may
// come back as another arena's, so their tapes must not be found there.
func (s *supervisor) retire(l *lane) {
	for _, a := range l.emptied() {
		s.d.forget(a)
		l.port.Lock()
		dropped := a.tape
		a.tape = nothing
		l.port.Drop(dropped)
		l.port.Unlock()
		s.giveBack(a)
	}
}

// emptied takes the former arenas out in which nothing lives.
func (l *lane) emptied() (empty []*arena) {
	l.port.Lock()
	defer l.port.Unlock()
	l.former = slices.DeleteFunc(l.former, func(a *arena) bool {
		if len(a.tape.Leave()) > 0 {
			return false
		}
		l.keep(a.tape.State)
		empty = append(empty, a)
		return true
	})
	return empty
}

// giveBack frees the memory of an arena that holds no block.
func (s *supervisor) giveBack(a *arena) {
	for _, at := range a.parts {
		m := &freeRequest{addr: at, arena: true}
		if s.d.ask(s.d.pool, m); m.err != nil {
			s.d.log.Error("the memory of an arena could not be given back", zap.Error(m.err))
		}
	}
	a.parts = nil
	a.size.Store(0)
}
