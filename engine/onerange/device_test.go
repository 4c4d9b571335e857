package onerange

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// device is a naive runner and driver: it performs the ops, holds them to the
// driver's rules, and keeps one record per 512 bytes of every handle, so that two
// blocks that share a byte through whatever aliases are found at once.
type device struct {
	eng        *Engine
	capacity   unit // of handles; 0: no bound
	used       unit
	failing    func(call int, op engine.Op) bool
	calls      int
	seq        int // order of frees and waits
	persistent bool

	handles map[engine.Index][]unitUse
	mapped  map[mem.Addr]*mapping
	synced  int                  // when the device was last waited for
	fenced  map[mem.StreamID]int // when the last fence that passed on it was recorded
	fences  []fenceUse
	blocks  map[uint64]engine.Op // granted and not freed, by request
	streams map[uint64]mem.StreamID
	users   map[uint64][]mem.StreamID
	pending []*pending
	freeing *pending // the block that engine.EvFree is about
	answers int
	refused engine.Op
	ops     []engine.Op
	done    []engine.Op // performed, answers among them; scripts print them
	granted map[uint64]engine.Op
	graphs  map[uint64]bool     // private pools that are captured
	kept    map[mem.Addr]uint64 // pages that graphs remember, with their pools
	resting []engine.Index      // whose memory others may have
}

// another stands for whoever has the memory of a handle that rests.
const another = ^uint64(0)

type unitUse struct {
	owner  uint64 // request that holds it, plus one
	stream mem.StreamID
	pool   uint64
	freed  int // when, if owner is zero and it was ever held
}

type mapping struct {
	handle engine.Index
	page   unit // of the handle, that is mapped here
	access bool
	live   int
	stream mem.StreamID
	freed  int
}

type pending struct {
	op    engine.Op
	seq   int
	waits []fenceUse
}

type fenceUse struct {
	fence  driver.Fence
	stream mem.StreamID
	seq    int
}

func newDevice(cfg Config) *device {
	return &device{
		eng: New(cfg, index.NewModel()), handles: map[engine.Index][]unitUse{},
		mapped: map[mem.Addr]*mapping{},
		fenced: map[mem.StreamID]int{}, blocks: map[uint64]engine.Op{},
		streams: map[uint64]mem.StreamID{},
		users:   map[uint64][]mem.StreamID{}, granted: map[uint64]engine.Op{},
		graphs: map[uint64]bool{}, kept: map[mem.Addr]uint64{},
	}
}

// step runs one event to its end and returns the first broken rule.
func (d *device) step(ev engine.Event) error {
	d.answers = 0
	if d.persistent {
		ev.Persistent = ev.Stream < 2 // stream 2 may be gone
	}
	first := ev
	switch {
	case ev.Kind == engine.EvCapture:
		d.graphs[ev.Pool] = true
		for at, m := range d.mapped {
			for _, u := range d.handles[m.handle][m.page*pageUnits:][:pageUnits] {
				if u.pool == ev.Pool && u.owner != 0 && m.live > 0 {
					d.kept[at] = ev.Pool
				}
			}
		}
	case ev.Kind == engine.EvTrim && ev.Pool != 0: // nobody will use what it had
		delete(d.graphs, ev.Pool)
		maps.DeleteFunc(d.kept, func(_ mem.Addr, pool uint64) bool { return pool == ev.Pool })
		for _, units := range d.handles {
			for i, u := range units {
				if u.pool == ev.Pool || ev.Pool == engine.Regions && !d.graphs[u.pool] {
					units[i].pool = 0
				}
			}
		}
	}
	for round := 0; ; round++ {
		if round > 100 {
			return fmt.Errorf("event %+v is not settled after %d rounds", first, round)
		}
		d.ops = d.eng.Step(ev, d.ops[:0])
		again := false
		for i, op := range d.ops {
			ok, err := d.perform(op, first)
			if err != nil {
				return fmt.Errorf("event %+v, op %d of %v: %w", first, i, d.ops, err)
			}
			if ok {
				d.done = append(d.done, op)
			} else {
				ev, again = engine.Event{Kind: engine.EvFailed, Failed: i,
					Code: driver.CodeOutOfMemory}, true
				break
			}
			if op.Kind == engine.OpResume {
				if i != len(d.ops)-1 {
					return fmt.Errorf("resume is not the last op of %v", d.ops)
				}
				ev, again = engine.Event{Kind: engine.EvResume, Req: op.Req}, true
			}
		}
		if !again {
			break
		}
	}
	want := 0
	if first.Kind == engine.EvAlloc {
		want = 1
	}
	if d.answers != want {
		return fmt.Errorf("event %+v: %d answers, want %d", first, d.answers, want)
	}
	return nil
}

// perform does one op; false: the driver refuses it.
func (d *device) perform(op engine.Op, ev engine.Event) (bool, error) {
	if op.Kind < engine.OpResume && op.Kind != engine.OpFence && op.Kind != engine.OpRest {
		d.calls++
		if d.failing != nil && d.failing(d.calls, op) {
			return false, nil
		}
	}
	switch op.Kind {
	case engine.OpCreate:
		if d.handles[op.Handle] != nil {
			return false, fmt.Errorf("handle %d exists", op.Handle)
		}
		if op.Size <= 0 || op.Size%mem.HandleSize != 0 {
			return false, fmt.Errorf("handle of %d bytes", op.Size)
		}
		if d.capacity > 0 && d.used+unitsOf(op.Size) > d.capacity {
			return false, nil
		}
		d.used += unitsOf(op.Size)
		d.handles[op.Handle] = make([]unitUse, unitsOf(op.Size))
	case engine.OpMap:
		if len(d.handles[op.Handle]) != int(unitsOf(op.Size)) ||
			op.Addr%mem.Addr(mem.HandleSize) != 0 {
			return false, fmt.Errorf("map of handle %d at %x, %d bytes", op.Handle, op.Addr,
				op.Size)
		}
		for i := range unitsOf(op.Size) / pageUnits {
			at := op.Addr + mem.Addr(bytesOf(i*pageUnits))
			if d.mapped[at] != nil {
				return false, fmt.Errorf("map of handle %d at %x, mapped there: %v", op.Handle, at,
					d.mapped[at])
			}
			d.mapped[at] = &mapping{handle: op.Handle, page: i}
		}
	case engine.OpAccess:
		return true, d.pages(op, func(m *mapping) error { m.access = true; return nil })
	case engine.OpUnmap:
		return true, d.unmap(op)
	case engine.OpRelease:
		return true, d.release(op)
	case engine.OpRest:
		return true, d.rest(op)
	case engine.OpSync:
		d.seq++
		d.synced = d.seq
		return true, d.passed(func(fenceUse) bool { return true })
	case engine.OpFence:
		d.fences = append(d.fences, fenceUse{op.Fence, op.Stream, d.seq})
		// none, if it is the fence of a private view
		for i := 0; d.freeing != nil && i < len(d.freeing.waits); i++ {
			if d.freeing.waits[i].stream == op.Stream {
				d.freeing.waits[i].fence = op.Fence
			}
		}
	case engine.OpGrant:
		d.answers++
		return true, d.grant(op, ev)
	case engine.OpRefuse:
		d.answers++
		d.refused = op
	case engine.OpUnknown:
		if ev.Kind == engine.EvAlloc {
			return false, fmt.Errorf("unknown as an answer to a request")
		}
	}
	return true, nil
}

func (d *device) pages(op engine.Op, do func(*mapping) error) error {
	for a := op.Addr; a < op.Addr+mem.Addr(op.Size); a += mem.Addr(mem.HandleSize) {
		m := d.mapped[a]
		if m == nil {
			return fmt.Errorf("%v: page %x is not mapped", op, a)
		}
		if err := do(m); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) unmap(op engine.Op) error {
	err := d.pages(op, func(m *mapping) error {
		if m.live > 0 || m.freed > 0 && max(d.synced, d.fenced[m.stream]) < m.freed {
			return fmt.Errorf("unmap of a page in use: %+v", *m)
		}
		return nil
	})
	end := op.Addr + mem.Addr(op.Size)
	for a := op.Addr; a < end; a += mem.Addr(mem.HandleSize) {
		if pool := d.kept[a]; pool != 0 {
			return fmt.Errorf("%x is unmapped, which graphs of pool %d remember", a, pool)
		}
	}
	if m := d.mapped[end]; err == nil && (d.mapped[op.Addr].page != 0 || m != nil && m.page != 0) {
		err = fmt.Errorf("unmap %v splits a handle", op)
	}
	for a := op.Addr; a < end; a += mem.Addr(mem.HandleSize) {
		delete(d.mapped, a)
	}
	return err
}

func (d *device) release(op engine.Op) error {
	for a, m := range d.mapped {
		if m.handle == op.Handle && m.access { // without: its unmap failed
			return fmt.Errorf("release of handle %d, mapped at %x", op.Handle, a)
		}
	}
	if d.handles[op.Handle] == nil {
		return fmt.Errorf("release of handle %d, which does not exist", op.Handle)
	}
	rests := slices.Index(d.resting, op.Handle)
	if rests >= 0 {
		d.resting = slices.Delete(d.resting, rests, rests+1)
	}
	for u, use := range d.handles[op.Handle] {
		if rests < 0 && (use.owner != 0 || use.freed > 0 && d.synced < use.freed) {
			return fmt.Errorf("release of handle %d, unit %d in use: %+v", op.Handle, u, use)
		}
	}
	d.used -= unit(len(d.handles[op.Handle]))
	delete(d.handles, op.Handle)
	return nil
}

// rest has another have the memory of a handle. What used it must have passed a fence.
func (d *device) rest(op engine.Op) error {
	if d.handles[op.Handle] == nil || slices.Contains(d.resting, op.Handle) {
		return fmt.Errorf("handle %d does not exist, or rests", op.Handle)
	}
	for u, use := range d.handles[op.Handle] {
		if use.owner != 0 || use.freed > 0 && max(d.synced, d.fenced[use.stream]) < use.freed {
			return fmt.Errorf("handle %d rests, unit %d in use: %+v", op.Handle, u, use)
		}
		d.handles[op.Handle][u] = unitUse{owner: another}
	}
	d.resting = append(d.resting, op.Handle)
	return nil
}

// rise gives the memory of a handle that rests back.
func (d *device) rise(i int) error {
	h := d.resting[i]
	d.resting = slices.Delete(d.resting, i, i+1)
	clear(d.handles[h])
	return d.step(engine.Event{Kind: engine.EvRise, Handle: h})
}

// units calls do for every unit of [addr, addr+size).
func (d *device) units(op engine.Op, do func(*mapping, *unitUse) error) error {
	for a, end := op.Addr, op.Addr+mem.Addr(op.Size); a < end; {
		page := a &^ (mem.Addr(mem.HandleSize) - 1)
		m := d.mapped[page]
		if m == nil || !m.access {
			return fmt.Errorf("%x is not accessible", a)
		}
		units := d.handles[m.handle][m.page*pageUnits:]
		for ; a < min(end, page+mem.Addr(mem.HandleSize)); a += mem.Addr(mem.Grain) {
			if err := do(m, &units[(a-page)/mem.Addr(mem.Grain)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// grant checks that nobody holds the bytes, and that whoever held them last is on
// the same stream or has been waited for, and in a pool that may give them away.
func (d *device) grant(op engine.Op, ev engine.Event) error {
	if op.Req != ev.Req || op.Size < ev.Asked || op.Size%mem.Grain != 0 {
		return fmt.Errorf("grant %+v for %+v", op, ev)
	}
	if ev.Exact && op.Addr != ev.Addr {
		return fmt.Errorf("grant %+v, not at %x", op, ev.Addr)
	}
	d.granted[op.Req] = op
	for a := op.Addr; d.graphs[ev.Pool] && a < op.Addr+mem.Addr(op.Size); a += mem.Addr(mem.Grain) {
		d.kept[a&^(mem.Addr(mem.HandleSize)-1)] = ev.Pool
	}
	d.blocks[op.Req], d.streams[op.Req] = op, ev.Stream
	delete(d.users, op.Req)
	return d.units(op, func(m *mapping, u *unitUse) error {
		m.live++
		switch {
		case u.owner != 0:
			return fmt.Errorf("request %d shares memory with request %d", op.Req, u.owner-1)
		case u.freed > 0 && u.pool != 0 && u.pool != ev.Pool:
			return fmt.Errorf("request %d got memory of private pool %d", op.Req, u.pool)
		case u.freed > 0 && u.stream != ev.Stream && max(d.synced, d.fenced[u.stream]) < u.freed:
			return fmt.Errorf("request %d on stream %d got memory of stream %d without a wait",
				op.Req, ev.Stream, u.stream)
		}
		u.owner, u.stream, u.pool = op.Req+1, ev.Stream, ev.Pool
		return nil
	})
}

// record runs engine.EvUseStream.
func (d *device) record(req uint64, stream mem.StreamID) error {
	if stream != d.streams[req] {
		d.users[req] = append(d.users[req], stream)
	}
	return d.step(engine.Event{Kind: engine.EvUseStream, Addr: d.blocks[req].Addr, Stream: stream})
}

// free runs engine.EvFree. The bytes keep their owner until every other stream that used
// the block has passed its fence or has been waited for.
func (d *device) free(req uint64) error {
	op := d.blocks[req]
	delete(d.blocks, req)
	p := &pending{op: op}
	for _, s := range d.users[req] {
		p.waits = append(p.waits, fenceUse{stream: s})
	}
	d.freeing = p
	d.seq++
	p.seq = d.seq
	err := d.step(engine.Event{Kind: engine.EvFree, Addr: op.Addr})
	d.freeing = nil
	if err != nil {
		return err
	}
	if err := d.units(op, func(m *mapping, u *unitUse) error {
		m.live--
		m.stream, m.freed = d.streams[req], p.seq
		return nil
	}); err != nil {
		return err
	}
	if len(p.waits) == 0 {
		return d.vacate(p)
	}
	d.pending = append(d.pending, p)
	return nil
}

func (d *device) vacate(p *pending) error {
	return d.units(p.op, func(_ *mapping, u *unitUse) error {
		if u.owner != p.op.Req+1 {
			return fmt.Errorf("the bytes of request %d belong to request %d", p.op.Req,
				int(u.owner)-1)
		}
		u.owner, u.freed = 0, p.seq
		return nil
	})
}

// passed drops the waits that done holds for, and gives free the blocks that wait
// for nothing else.
func (d *device) passed(done func(fenceUse) bool) error {
	if d.freeing != nil {
		d.freeing.waits = slices.DeleteFunc(d.freeing.waits, done)
	}
	var err error
	d.pending = slices.DeleteFunc(d.pending, func(p *pending) bool {
		p.waits = slices.DeleteFunc(p.waits, done)
		if len(p.waits) == 0 {
			err = errors.Join(err, d.vacate(p))
			return true
		}
		return false
	})
	return err
}

// pass lets fence number i of those outstanding pass.
func (d *device) pass(i int) error {
	f := d.fences[i]
	d.fences = slices.Delete(d.fences, i, i+1)
	d.fenced[f.stream] = max(d.fenced[f.stream], f.seq)
	if err := d.passed(func(w fenceUse) bool { return w.fence == f.fence }); err != nil {
		return err
	}
	return d.step(engine.Event{Kind: engine.EvFence, Fence: f.fence})
}
