package cquick

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// twins are one engine with cursors, over the model, that is asked for everything, and one over the
// index in C, as in a training process: C serves what it can, Go the rest.
type twins struct {
	r       *rand.Rand
	cfg     onerange.Config
	failing int // one operation in so many fails, of both; 0: none
	alone   *onerange.Engine
	cursors map[mem.StreamID]*[schedule.Cursors]schedule.Cursor
	beside  *onerange.Engine
	device  *Device
	slack   uint64 // events that C may serve in a row; 0: any number
	live    []block
	late    map[mem.Addr]block // freed, and waiting for other streams
	fences  []driver.Fence
	served  [2]int // requests: by Go, by C
	hits    int    // of C's
	freed   [2]int
	lists   map[cursorKey][][]schedule.Entry // that a cursor has played
	swaps   int
}

type cursorKey struct {
	stream mem.StreamID
	cursor int
}

type block struct {
	addr   mem.Addr
	size   mem.Bytes // rounded
	asked  mem.Bytes
	stream mem.StreamID
}

func newTwins(seed uint64, change func(*onerange.Config)) *twins {
	cfg := onerange.DefaultConfig()
	cfg.Window = 64 * mem.GiB
	change(&cfg)
	d := New(cfg.Base, cfg.SmallLimit)
	t := &twins{
		r: rand.New(rand.NewPCG(seed, 7)), cfg: cfg, alone: onerange.New(cfg,
			index.NewModel()), beside: onerange.New(cfg, d.Index()), device: d,
		cursors: map[mem.StreamID]*[schedule.Cursors]schedule.Cursor{}, late: map[mem.Addr]block{},
		lists: map[cursorKey][][]schedule.Entry{},
	}
	t.allow()
	return t
}

func (t *twins) allow() {
	if t.slack == 0 {
		t.device.Allow(math.MaxUint64)
		return
	}
	t.device.Allow(t.slack)
}

// both has Go's engines take an event, and compares what they ask for at every turn; returns the
// last operation.
func (t *twins) both(ev engine.Event) (last engine.Op, err error) {
	defer t.allow()
	// the device may have been waited for
	defer maps.DeleteFunc(t.late, func(at mem.Addr, _ block) bool {
		got, ok := t.alone.Lookup(at)
		return !ok || !got.Pending
	})
	for {
		a, b := t.alone.Step(ev, nil), t.beside.Step(ev, nil)
		if !slices.Equal(a, b) {
			return last, fmt.Errorf("event %+v: alone %+v, beside C %+v", ev, a, b)
		}
		if len(a) == 0 {
			return last, nil
		}
		last = a[len(a)-1]
		failed := -1
		for i, op := range a {
			if op.Kind < engine.OpResume && op.Kind != engine.OpFence && t.failing > 0 &&
				t.r.IntN(t.failing) == 0 {
				failed = i
				break
			}
			if op.Kind == engine.OpFence && op.Addr == 0 {
				t.fences = append(t.fences, op.Fence)
			}
		}
		switch {
		case failed >= 0:
			ev = engine.Event{Kind: engine.EvFailed, Failed: failed, Code: driver.CodeOutOfMemory}
		case last.Kind == engine.OpResume:
			ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
		default:
			return last, nil
		}
	}
}

// single has the engine over the model do what C has done.
func (t *twins) single(ev engine.Event) (last engine.Op, err error) {
	ops := t.alone.Step(ev, nil)
	if len(ops) > 1 || len(ops) == 1 && ops[0].Kind != engine.OpGrant {
		return last, fmt.Errorf("C has done %+v alone, for which the engine wants %+v", ev, ops)
	}
	if len(ops) == 1 {
		last = ops[0]
	}
	return last, nil
}

func (t *twins) cursorsOf(id mem.StreamID) *[schedule.Cursors]schedule.Cursor {
	x := t.cursors[id]
	if x == nil {
		x = &[schedule.Cursors]schedule.Cursor{}
		t.cursors[id] = x
	}
	return x
}

func (t *twins) place(e schedule.Entry) (at mem.Addr) {
	if e.Place() != 0 {
		at = t.cfg.Base + mem.Addr(e.Place())*mem.Addr(mem.Grain)
	}
	return at
}

// alloc asks C first and, where it does not serve, both engines, as a pool does.
func (t *twins) alloc(id mem.StreamID, asked mem.Bytes) (b block, err error) {
	units := uint64(mem.Round(asked) / mem.Grain)
	small := 0
	if mem.Round(asked) <= t.cfg.SmallLimit {
		small = 1
	}
	mine := &t.cursorsOf(id)[small]
	entry := mine.Next(units)
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Asked: asked, Stream: id,
		Addr: t.place(entry)}
	addr := t.device.Alloc(id, asked)
	var got engine.Op
	if addr != 0 {
		t.served[1]++
		got, err = t.single(ev)
		if err == nil && (got.Kind != engine.OpGrant || got.Addr != addr) {
			err = fmt.Errorf("C served %v of stream %d at %#x, alone %+v (planned %#x)", asked, id,
				addr, got, ev.Addr)
		}
		if ev.Addr != 0 {
			t.hits++
		}
	} else {
		t.served[0]++
		if other := t.device.Next(id, small, units); other != entry {
			return b, fmt.Errorf("the cursors of stream %d answer %x and, C's, %x for %d units", id,
				entry, other, units)
		}
		if got, err = t.both(ev); err == nil && got.Kind == engine.OpGrant {
			t.device.Count(id, small, got.Addr == ev.Addr)
			t.device.Served(asked)
		}
	}
	if err != nil || got.Kind != engine.OpGrant {
		return b, err
	}
	mine.Count(got.Addr == ev.Addr)
	b = block{got.Addr, mem.Round(asked), asked, id}
	return b, t.apart(b)
}

// apart enters a block that was handed out, and reports whether it shares a byte.
func (t *twins) apart(b block) error {
	for _, x := range t.live {
		if b.addr < x.addr+mem.Addr(x.size) && x.addr < b.addr+mem.Addr(b.size) {
			return fmt.Errorf("%+v overlaps %+v, which lives", b, x)
		}
	}
	for _, x := range t.late {
		if b.addr < x.addr+mem.Addr(x.size) && x.addr < b.addr+mem.Addr(b.size) {
			return fmt.Errorf("%+v overlaps %+v, which waits for other streams", b, x)
		}
	}
	t.live = append(t.live, b)
	return nil
}

// free ends a block's life.
func (t *twins) free(x block) error {
	i := slices.Index(t.live, x)
	t.live = slices.Delete(t.live, i, i+1)
	ev := engine.Event{Kind: engine.EvFree, Addr: x.addr}
	if t.device.Free(x.addr + mem.Addr(mem.Grain)/2) {
		return fmt.Errorf("the middle of %+v could be freed", x)
	}
	if t.device.Free(x.addr) {
		t.freed[1]++
		if t.device.Free(x.addr) {
			return fmt.Errorf("%+v could be freed twice", x)
		}
		if _, err := t.single(ev); err != nil {
			return err
		}
		if got, ok := t.alone.Lookup(x.addr); ok {
			return fmt.Errorf("C has freed %+v, which waits: %+v", x, got)
		}
		return nil
	}
	t.freed[0]++
	if _, err := t.both(ev); err != nil {
		return err
	}
	t.device.Freed(x.asked)
	if got, ok := t.alone.Lookup(x.addr); ok && got.Pending {
		t.late[x.addr] = x
	}
	return nil
}

// pass completes the n-th fence.
func (t *twins) pass(n int) error {
	f := t.fences[n]
	t.fences = slices.Delete(t.fences, n, n+1)
	_, err := t.both(engine.Event{Kind: engine.EvFence, Fence: f})
	return err
}

func (t *twins) record(x block, user mem.StreamID) error {
	_, err := t.both(engine.Event{Kind: engine.EvUseStream, Addr: x.addr, Stream: user})
	return err
}

// play begins a cursor of a stream with a list.
func (t *twins) play(id mem.StreamID, cursor int, entries []schedule.Entry) {
	key := cursorKey{id, cursor}
	t.lists[key] = append(t.lists[key], entries)
	t.serve(id, cursor, entries)
}

// serve has a cursor go on with a list.
func (t *twins) serve(id mem.StreamID, cursor int, entries []schedule.Entry) {
	t.device.Play(id, cursor, entries)
	t.cursorsOf(id)[cursor].Replace(entries)
}

// swap has a cursor begin a list that it has played before.
func (t *twins) swap(id mem.StreamID) {
	cursor := t.r.IntN(2)
	if all := t.lists[cursorKey{id, cursor}]; len(all) > 0 {
		t.swaps++
		t.serve(id, cursor, all[max(len(all)-1-t.r.IntN(4), 0)])
	}
}

func (t *twins) boundary() error {
	for id, cursors := range t.cursors {
		for i := range cursors {
			t.serve(id, i, cursors[i].Entries)
		}
	}
	_, err := t.both(engine.Event{Kind: engine.EvBoundary})
	return err
}

// same compares what both sides know.
func (t *twins) same() error {
	if err := errors.Join(t.beside.Check(), t.alone.Check()); err != nil {
		return err
	}
	if a, b := t.alone.Stats(), t.beside.Stats(); a != b {
		return fmt.Errorf("stats differ:\nalone    %+v\nbeside C %+v", a, b)
	}
	for _, x := range t.live {
		if got, ok := t.beside.Lookup(x.addr); !ok || got.Pending || got.Size != x.size ||
			got.Asked != x.asked || got.Stream != x.stream {
			return fmt.Errorf("%+v is known as %+v", x, got)
		}
	}
	var allocated mem.Bytes
	for _, x := range t.live {
		allocated += x.size
	}
	if n, blocks := t.device.Counts(); n != allocated || blocks != len(t.live) {
		return fmt.Errorf("%v in %d blocks live, counted are %v in %d", allocated, len(t.live), n,
			blocks)
	}
	for id, cursors := range t.cursors {
		for small := range cursors {
			var gaps [2][]engine.Range
			t.alone.Gaps(id, small == 1, func(r engine.Range) { gaps[0] = append(gaps[0], r) })
			t.beside.Gaps(id, small == 1, func(r engine.Range) { gaps[1] = append(gaps[1], r) })
			if !slices.Equal(gaps[0], gaps[1]) {
				return fmt.Errorf("gaps of stream %d differ: alone %v, beside C %v", id, gaps[0],
					gaps[1])
			}
			a := &cursors[small]
			if at, diverged, hits, misses := t.device.Cursor(id, small); a.At != at ||
				a.Diverged != diverged || a.Hits != hits || a.Misses != misses {
				return fmt.Errorf("cursors %d of stream %d differ: alone %+v, C's %d %v %d %d",
					small, id, *a, at, diverged, hits, misses)
			}
		}
	}
	return nil
}
