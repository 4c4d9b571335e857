package ctape

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/plan/predict"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// twins are one engine with tapes that is asked for everything, and one whose state and
// tapes are C's, as in a training process: C serves what it can, Go the rest.
type twins struct {
	r        *rand.Rand
	alone    *onerange.Engine
	tapes    map[mem.StreamID]*[wish.Tapes]wish.Tape
	lending  *onerange.Engine
	device   *Device
	a, b     onerange.Lent
	lent     bool
	slack    uint64 // events that C may serve in a row; 0: any number
	most     uint64 // units of a request that C may serve from a gap
	live     []block
	late     map[mem.Addr]block // freed, and waiting for other streams
	waits    map[driver.Fence]mem.Addr
	fences   []driver.Fence
	served   [2]int // requests: by Go, by C
	hits     int    // of C's
	brief    int    // of C's
	foreseen int    // of these, of forecasts
	freed    [2]int
	reels    map[tapeKey][]*Reel // that a tape has played
	swaps    int
}

type tapeKey struct {
	stream mem.StreamID
	tape   int
}

type block struct {
	addr   mem.Addr
	size   mem.Bytes // rounded
	asked  mem.Bytes
	stream mem.StreamID
}

func newTwins(seed uint64) *twins {
	cfg := onerange.DefaultConfig()
	cfg.Window = 64 * mem.GiB
	t := &twins{
		r: rand.New(rand.NewPCG(seed, 7)), alone: onerange.New(cfg), lending: onerange.New(cfg), device: New(), most: math.MaxUint64,
		tapes: map[mem.StreamID]*[wish.Tapes]wish.Tape{}, late: map[mem.Addr]block{}, waits: map[driver.Fence]mem.Addr{},
		reels: map[tapeKey][]*Reel{},
	}
	var table brief.Table
	for i := range table {
		table[i] = t.r.Uint64()
	}
	t.device.SetBrief(&table)
	t.lend()
	return t
}

func (t *twins) lend() {
	t.alone.Lend(&t.a)
	t.lending.Lend(&t.b)
	until := uint64(math.MaxUint64)
	if t.slack > 0 {
		until = t.b.Clock + t.slack
	}
	t.device.Lend(&t.b, until, t.most, false)
	t.lent = true
}

func (t *twins) takeBack() error {
	if !t.device.TakeBack(&t.b.Counters) {
		return fmt.Errorf("an equation did not hold in C")
	}
	t.lending.TakeBack(&t.b.Counters)
	return nil
}

// both has Go's engines take an event; C has nothing.
func (t *twins) both(ev engine.Event) (last engine.Op, err error) {
	if err := t.takeBack(); err != nil {
		return last, err
	}
	defer t.lend()
	last, err = t.step(t.alone, ev)
	if other, _ := t.step(t.lending, ev); err == nil && other != last {
		err = fmt.Errorf("event %+v: alone %+v, lending %+v", ev, last, other)
	}
	return last, err
}

// step performs what an engine asks for; returns the last operation.
func (t *twins) step(e *onerange.Engine, ev engine.Event) (last engine.Op, err error) {
	for {
		ops := e.Step(ev, nil)
		if len(ops) == 0 {
			return last, nil
		}
		last = ops[len(ops)-1]
		for _, op := range ops {
			if op.Kind == engine.OpRecord && e == t.alone && op.Addr == 0 {
				t.fences = append(t.fences, op.Fence)
				t.waits[op.Fence] = ev.Addr
			}
		}
		if last.Kind != engine.OpResume {
			return last, nil
		}
		ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
	}
}

func (t *twins) tapesOf(id mem.StreamID) *[wish.Tapes]wish.Tape {
	x := t.tapes[id]
	if x == nil {
		x = &[wish.Tapes]wish.Tape{wish.New(nil), wish.New(nil), wish.New(nil)}
		t.tapes[id] = x
	}
	return x
}

func (t *twins) place(e wish.Entry) (at mem.Addr) {
	if e.Place() != 0 {
		at = t.b.Base + mem.Addr(e.Place())*mem.Addr(mem.Grain)
	}
	return at
}

// alloc asks C first and, where it does not serve, both engines, as a pool does.
func (t *twins) alloc(id mem.StreamID, asked mem.Bytes) (b block, err error) {
	units := uint64(mem.Round(asked) / mem.Grain)
	small := 0
	if mem.Round(asked) <= t.b.SmallLimit {
		small = 1
	}
	mine := &t.tapesOf(id)[small]
	planned := len(mine.Entries) > 0
	before := *mine.State
	entry := mine.Next(units)
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Size: asked, Stream: id, Wish: t.place(entry), Brief: small == 0 && t.device.Brief(asked)}
	ahead := &t.tapesOf(id)[wish.Foreseen]
	asks := small == 0 && units > t.most && len(ahead.Entries) > 0
	foreseen := false
	if at := int(ahead.Cursor); asks && ev.Wish == 0 && at < len(ahead.Entries) && units <= ahead.Entries[at].Size() && units+ahead.Entries[at].Size()/predict.Slack >= ahead.Entries[at].Size() {
		ev.Wish = t.place(ahead.Entries[at])
		foreseen = ev.Wish != 0
	}
	addr := t.device.Alloc(id, asked)
	var got engine.Op
	if addr != 0 {
		t.served[1]++
		if ev.Brief {
			t.brief++
		}
		got, err = t.step(t.alone, ev)
		if err == nil && (got.Kind != engine.OpGrant || got.Addr != addr) {
			err = fmt.Errorf("C served %v of stream %d at %#x, alone %+v (wish %#x)", asked, id, addr, got, ev.Wish)
		}
		if !planned { // C leaves a tape alone that expects nothing
			*mine.State = before
		}
		if ev.Wish != 0 {
			t.hits++
		}
		if foreseen {
			t.foreseen++
			ahead.Cursor++
			ahead.Matched++
			ahead.Hits++
		}
	} else {
		t.served[0]++
		its := &t.device.Stream(id).Tapes[small]
		if err := t.takeBack(); err != nil {
			return b, err
		}
		if other := its.Next(units); other != entry {
			return b, fmt.Errorf("the tapes of stream %d answer %x and, C's, %x for %d units", id, entry, other, units)
		}
		got, err = t.step(t.alone, ev)
		other, _ := t.step(t.lending, ev)
		if err == nil && other != got {
			err = fmt.Errorf("%+v: alone %+v, lending %+v", ev, got, other)
		}
		if foreseen {
			count(ahead.State, got.Addr == ev.Wish)
			count(t.device.Stream(id).Tapes[wish.Foreseen].State, got.Addr == ev.Wish)
		} else if planned {
			count(its.State, got.Addr == ev.Wish)
		}
		if asks { // Go knows which of the foreseen requests is the next
			ahead.Cursor++
			t.device.Stream(id).Tapes[wish.Foreseen].Cursor++
		}
		t.device.Served(asked)
		t.lend()
	}
	if planned && !foreseen {
		count(mine.State, got.Addr == ev.Wish)
	}
	if err != nil || got.Kind != engine.OpGrant {
		return b, err
	}
	b = block{got.Addr, mem.Round(asked), asked, id}
	return b, t.apart(b)
}

func count(s *wish.State, hit bool) {
	if hit {
		s.Hits++
	} else {
		s.Misses++
	}
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

// free ends a block's life; by says which stream the caller names.
func (t *twins) free(x block, by mem.StreamID) error {
	i := slices.Index(t.live, x)
	t.live = slices.Delete(t.live, i, i+1)
	ev := engine.Event{Kind: engine.EvFree, Addr: x.addr}
	if t.device.Free(by, x.addr, x.asked*mem.Bytes((t.r.IntN(3)+1)/2)) {
		t.freed[1]++
		if t.device.Free(by, x.addr, x.asked) {
			return fmt.Errorf("%+v could be freed twice", x)
		}
		if _, err := t.step(t.alone, ev); err != nil {
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
	at := t.waits[f]
	delete(t.waits, f)
	if _, err := t.both(engine.Event{Kind: engine.EvFence, Fence: f}); err != nil {
		return err
	}
	if got, ok := t.alone.Lookup(at); !ok || !got.Pending {
		delete(t.late, at)
	}
	return nil
}

func (t *twins) record(x block, user mem.StreamID) error {
	_, err := t.both(engine.Event{Kind: engine.EvRecord, Addr: x.addr, Stream: user})
	return err
}

// play begins a tape of a stream with a list.
func (t *twins) play(id mem.StreamID, tape int, entries []wish.Entry) error {
	r := t.device.Build(slices.Clone(entries), tape == wish.Foreseen)
	key := tapeKey{id, tape}
	t.reels[key] = append(t.reels[key], r)
	return t.serve(id, tape, r, 0)
}

// serve has a tape go on with a reel.
func (t *twins) serve(id mem.StreamID, tape int, r *Reel, at int) error {
	if err := t.takeBack(); err != nil {
		return err
	}
	t.device.Play(id, tape, r)
	mine, its := &t.tapesOf(id)[tape], &t.device.Stream(id).Tapes[tape]
	mine.Replace(r.Entries)
	if at > 0 {
		for _, tape := range []*wish.Tape{mine, its} {
			tape.Cursor, tape.Matched = uint32(at), uint64(at)
		}
	}
	t.lend()
	return nil
}

// swap has a tape go on with a reel that it has played before, near where it is or at its
// beginning.
func (t *twins) swap(id mem.StreamID) error {
	tape := t.r.IntN(2)
	all := t.reels[tapeKey{id, tape}]
	if len(all) == 0 {
		return nil
	}
	t.swaps++
	r := all[max(len(all)-1-t.r.IntN(4), 0)]
	at := 0
	if t.r.IntN(3) > 0 {
		at = min(int(t.tapesOf(id)[tape].Cursor)+t.r.IntN(3), len(r.Entries))
	}
	return t.serve(id, tape, r, at)
}

func (t *twins) boundary() error {
	if err := t.takeBack(); err != nil {
		return err
	}
	for id, s := range t.device.streams {
		for i := range s.Tapes {
			s.Tapes[i].Boundary()
			t.tapesOf(id)[i].Boundary()
		}
	}
	t.lend()
	return nil
}

// same compares what both sides know.
func (t *twins) same() error {
	if err := t.takeBack(); err != nil {
		return err
	}
	defer t.lend()
	if err := t.lending.Check(); err != nil {
		return err
	}
	if a, b := t.alone.Stats(), t.lending.Stats(); a != b {
		return fmt.Errorf("stats differ:\nalone   %+v\nlending %+v", a, b)
	}
	for _, x := range t.live {
		if got, ok := t.lending.Lookup(x.addr); !ok || got.Pending || got.Size != x.size || got.Asked != x.asked || got.Stream != x.stream {
			return fmt.Errorf("%+v is known as %+v", x, got)
		}
	}
	var allocated mem.Bytes
	for _, x := range t.live {
		allocated += x.size
	}
	if n, blocks := t.device.Counts(); n != allocated || blocks != len(t.live) {
		return fmt.Errorf("%v in %d blocks live, counted are %v in %d", allocated, len(t.live), n, blocks)
	}
	for id, s := range t.device.streams {
		for small := range 2 {
			var gaps [2][]engine.Range
			t.alone.Gaps(id, small == 1, func(r engine.Range) { gaps[0] = append(gaps[0], r) })
			t.lending.Gaps(id, small == 1, func(r engine.Range) { gaps[1] = append(gaps[1], r) })
			if !slices.Equal(gaps[0], gaps[1]) {
				return fmt.Errorf("gaps of stream %d differ: alone %v, lending %v", id, gaps[0], gaps[1])
			}
		}
		for i := range s.Tapes {
			if a, b := *t.tapesOf(id)[i].State, *s.Tapes[i].State; a != b {
				return fmt.Errorf("tapes %d of stream %d differ: alone %+v, C's %+v", i, id, a, b)
			}
		}
	}
	return nil
}
