package actors

import (
	"errors"
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// install makes a stream's plan the one that is served: over the arena there is,
// if it can hold it.
func (s *supervisor) install(l *lane, ps *plan.Stream, first int) error {
	rest, cut, err := due(ps, int(s.d.steps.Load()))
	if err != nil {
		return err
	}
	g := l.ground(cut)
	need := rest.Arena
	if s.partly(l, ps, g.shift+need) {
		need = min(need, portionOf(need))
	}
	a, err := s.hold(l, g.shift, need, rest.Arena)
	if err != nil {
		return err
	}
	if a != l.arena {
		g = ground{cut: cut}
	}
	done := false
	defer func() { // lay may panic, too: it calls the port
		if !done && a != l.arena {
			s.giveBack(a)
		}
	}()
	made, err := s.d.layouts.of(ps, g)
	if err != nil {
		return err
	}
	if err = s.lay(a, &laid{ps, rest, g, max(first-cut, 0), made}); err == nil {
		done = true
		s.retire(l)
	}
	return err
}

// laid is a stream's plan as it is laid over an arena.
type laid struct {
	part *plan.Stream // the plan
	rest *plan.Stream // what of it is still to come
	ground
	first int // the order to begin with, if the prologue is over
	made  *stream.Layout
}

// errPrologue says that a plan cannot be served before its prologue is over.
var errPrologue = errors.New("the plan begins with a prologue that is half over")

// due returns what is left of a stream's plan after some boundaries, and how many
// tapes are over.
func due(ps *plan.Stream, passed int) (rest *plan.Stream, cut int, err error) {
	switch {
	case passed == 0 || len(ps.Tapes) == 0 || ps.Tapes[0].Kind != plan.Prologue:
		return ps, 0, nil
	case passed < ps.Tapes[0].Boundaries:
		return nil, 0, errPrologue
	}
	return ps.Steady(), 1, nil
}

// hold returns the lane's arena with at least need bytes of memory above shift, or
// another one of need bytes, with addresses for as many as whole, if it cannot have
// them.
func (s *supervisor) hold(l *lane, shift, need, whole mem.Bytes) (*arena, error) {
	a := l.arena
	end := mem.RoundUp(shift+need, mem.HandleSize)
	if a != nil && a.bytes() >= end {
		return a, nil
	}
	request := &allocRequest{size: end, stream: l.port.ID(), whole: true, room: whole, most: s.mostWith(l, end)}
	if a != nil && len(a.parts) > 0 {
		request.size, end = a.further(end)
		request.after = a.parts[len(a.parts)-1]
	}
	s.d.ask(s.d.pool, request)
	var refused *RefusedError
	if request.after != 0 && errors.As(request.err, &refused) && refused.Reason != engine.RefusedBusy {
		// Something lives behind it, or the device is full. What it holds goes to
		// the pool, but for what persists, and the plan to other addresses.
		s.dissolve(l)
		request.size, request.after, end = need, 0, need
		s.d.ask(s.d.pool, request)
	}
	if request.err != nil {
		return nil, request.err
	}
	if a == nil || len(a.parts) == 0 && a.base != request.addr || request.after == 0 && len(a.parts) > 0 {
		a = &arena{lane: l, base: request.addr, room: max(end, whole)}
	}
	a.parts = append(a.parts, request.addr)
	a.size.Store(int64(end))
	return a, nil
}

// lay makes a tape of the plan over the arena, shifted up, around the blocks that
// live there, and serves it from its first order, or if the prologue is over from
// the steady one named. All of this is under the stream's lock, so what takes long is
// done before.
func (s *supervisor) lay(a *arena, p *laid) error {
	l := a.lane
	l.port.Lock()
	defer l.port.Unlock()
	var live []stream.Adopted
	if a.tape != nil {
		l.port.Settle()
		live = a.tape.Leave()
	}
	kept, others := persistent(live)
	if !slices.Equal(kept, p.kept) { // another thread was served from the prologue meanwhile
		return &RefusedError{Reason: engine.RefusedBusy}
	}
	at := make(map[mem.Offset]uint32, len(live)) // slots by their offset
	for i, slot := range kept {
		at[slot.Offset] = uint32(len(p.rest.Slots) + i)
	}
	var more []stream.Slot
	for i, from := range others {
		at[from.Slot.Offset] = uint32(len(p.rest.Slots) + len(kept) + i)
		more = append(more, from.Slot)
	}
	a.span = max(a.bytes(), p.shift+p.rest.Arena)
	tape := l.port.Build(p.made.With(more), a.base, a.span)
	tape.Cover(a.bytes())
	tape.Hosts = true
	tape.Tune(l.tuning)
	if l.latest != nil {
		tape.Succeed(l.latest)
	}
	for _, from := range live {
		tape.Adopt(at[from.Slot.Offset], from)
		if from.Flags&stream.FlagPinned != 0 {
			l.port.Pinned(tape, 1)
		}
	}
	var before stream.State
	instead := a.tape
	if instead != nil {
		before = *instead.State
	}
	// Should the port fail here, the tape before goes on being served.
	l.port.Serve(tape, instead)
	if instead != nil {
		l.keep(&before)
	} else {
		s.d.remember(a)
	}
	if l.arena != nil && l.arena != a {
		l.former = append(l.former, l.arena)
	}
	if a.part != p.part || a.cut != p.cut {
		a.past = stream.Succession{}
		a.past.Ended(p.first)
	}
	a.part, a.cut, a.tape, l.latest = p.part, p.cut, tape, tape
	l.arena, l.serving, l.plan = a, a, p.part
	l.active.Store(true)
	l.row, l.rowBytes, l.rowHits = 0, 0, 0 // they were the tape's before
	a.prologue, a.steady = 0, 0
	if tapes := p.rest.Tapes; len(tapes) > 0 && tapes[0].Kind == plan.Prologue {
		a.prologue, a.steady = tapes[0].Boundaries, 1
	} else {
		a.play()
	}
	return nil
}

// shifted turns a stream's plan into what a tape is laid from.
func shifted(ps *plan.Stream, shift mem.Bytes) (slots []stream.Slot, orders [][]int32) {
	slots = make([]stream.Slot, len(ps.Slots))
	for i, s := range ps.Slots {
		slots[i] = stream.Slot{Size: s.Size, Persist: s.Persist, Pool: s.Pool, Spread: s.Spread}
		if !s.Pool {
			slots[i].Offset = s.Offset + mem.Offset(shift)
		}
	}
	orders = make([][]int32, len(ps.Tapes))
	for t, tape := range ps.Tapes {
		orders[t] = make([]int32, len(tape.Entries))
		for i, e := range tape.Entries {
			orders[t][i] = int32(e)
		}
	}
	return slots, orders
}
