package actors

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan/predict"
	"stalloc/stream/wish"
)

// layout is the actor that lays forecasts out while their steps run. It has a goroutine of its
// own, beside the planner's: a forecast that waits until the step before has been looked at
// comes when a third of its requests are over.
type layout struct {
	d     *Device
	ahead *ahead // the pool's, to catch up in
}

// Receive implements actor.Actor.
func (l *layout) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			l.d.log.Error("a step's forecast failed, and the next is made anew", zap.Any("panic", r))
		}
	}()
	switch m := ctx.Message().(type) {
	case *foreseen:
		m.layOut(l.d)
		l.d.tellPool(func(p *pool) { p.ahead.play(p, m) })
	case *backlog:
		defer l.d.tellPool(func(p *pool) {
			if p.ahead != nil {
				p.ahead.away--
			}
		})
		l.ahead.catchUp(m)
	}
}

// tellPool has the pool do something, without waiting for it.
func (d *Device) tellPool(do func(*pool)) {
	d.root.Send(d.pool, &order[*pool]{do: func(p *pool) error { do(p); return nil }})
}

// layOut plans the offsets, if there is a plan. It runs beside the program.
func (x *foreseen) layOut(d *Device) {
	all, space := x.forecast.Positions, predict.NewSpace(x.known)
	i, _ := slices.BinarySearchFunc(all, x.forecast.From, func(p predict.Position, now mem.Tick) int { return cmp.Compare(p.Begin, now) })
	first := slices.Repeat([]mem.Offset{predict.Nowhere}, min(i+x.ahead, len(all)))
	for ; i < len(first); i++ { // they will be placed before there is a plan
		wish := predict.Nowhere
		if i < len(x.wishes) {
			wish = x.wishes[i]
		}
		first[i] = space.Serve(all[i], wish)
		x.forecast.From = all[i].Begin + 1
	}
	offsets, top := predict.Plan(x.forecast.From, all, space, x.goal)
	if top > x.goal+x.goal/foreseenMore {
		return
	}
	copy(offsets, first)
	x.offsets = offsets
	if _, quick := d.host.(Borrower); !quick {
		return
	}
	entries := make([]wish.Entry, len(offsets))
	for i, at := range offsets {
		if at != predict.Nowhere {
			entries[i] = wish.Of(uint64(all[i].Size/mem.Grain), uint64(at)/uint64(mem.Grain))
		}
	}
	x.reel = d.host.Build(entries, true)
}

// catchUp reads a step that nobody has read along.
func (a *ahead) catchUp(m *backlog) {
	streams := a.streams
	a.streams = map[mem.StreamID]*forecaster{} // if it fails they begin again
	b := &ahead{streams: streams}
	b.take(m.events, func(n uint16) mem.StreamID { return m.streams[n] })
	for _, f := range streams {
		f.learner.Boundary()
	}
	a.streams = streams
}
