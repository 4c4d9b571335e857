package gmlake

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

const pageUnits = int(pageSize / mem.Grain)

// device is a naive runner and driver: it performs the ops, holds them to the
// driver's rules, and keeps one record per 512 bytes of every handle, so that two
// blocks that share a byte through whatever aliases are found at once.
type device struct {
	pool     *Pool
	capacity int // handles; 0: no bound
	failing  func(call int, op engine.Op) bool
	calls    int
	seq      int // order of frees and waits

	handles map[engine.Index]*[pageUnits]use
	mapped  map[mem.Addr]*mapping
	synced  int // when the device was last waited for
	fences  []fenceUse
	blocks  map[uint64]*granted
	freed   []*granted // wait for other streams
	freeing *granted
	answers int
	refused engine.Op
	doomed  int // most doomed sBlocks seen
	ops     []engine.Op
}

// use is what happens to 512 bytes of a handle.
type use struct {
	owner  uint64 // request that holds it, plus one
	stream mem.StreamID
	pool   uint64
	freed  int // when, if nobody holds it and somebody has
}

type mapping struct {
	handle engine.Index
	access bool
	live   int
	stream mem.StreamID
	freed  int
}

type granted struct {
	op     engine.Op
	stream mem.StreamID
	pool   uint64
	users  []fenceUse
	seq    int // when it was freed
}

type fenceUse struct {
	fence  driver.Fence
	stream mem.StreamID
}

func newDevice(cfg Config) *device {
	return &device{
		pool: New(cfg), handles: map[engine.Index]*[pageUnits]use{},
		mapped: map[mem.Addr]*mapping{},
		blocks: map[uint64]*granted{},
	}
}

// step runs one event to its end and returns the first broken rule.
func (d *device) step(ev engine.Event) error {
	d.answers = 0
	first := ev
	for round := 0; ; round++ {
		if round > 40 {
			return fmt.Errorf("event %+v is not settled after %d rounds", first, round)
		}
		d.ops = d.pool.Step(ev, d.ops[:0])
		again := false
		for i, op := range d.ops {
			ok, err := d.perform(op, first)
			if err != nil {
				return fmt.Errorf("event %+v, op %d of %v: %w", first, i, d.ops, err)
			}
			if !ok {
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
	if first.Kind == engine.EvTrim && first.Pool != 0 {
		d.forget(first.Pool)
	}
	doomed := 0
	for i := range d.pool.stitches {
		if s := &d.pool.stitches[i]; s.block != none && s.doomed {
			doomed++
		}
	}
	d.doomed = max(d.doomed, doomed)
	return nil
}

// forget ends the ban on what a private pool had: no graph will be replayed.
func (d *device) forget(pool uint64) {
	for _, units := range d.handles {
		for u := range units {
			if units[u].owner == 0 && units[u].pool == pool {
				units[u].pool = 0
			}
		}
	}
}

// perform does one op; false: the driver refuses it.
func (d *device) perform(op engine.Op, ev engine.Event) (bool, error) {
	if op.Kind < engine.OpResume && op.Kind != engine.OpFence {
		d.calls++
		if d.failing != nil && d.failing(d.calls, op) {
			return false, nil
		}
	}
	switch op.Kind {
	case engine.OpCreate:
		if d.handles[op.Handle] != nil || op.Handle == 0 || op.Size != mem.HandleSize {
			return false, fmt.Errorf("handle %d of %v: exists, or has another size", op.Handle,
				op.Size)
		}
		if d.capacity > 0 && len(d.handles) >= d.capacity {
			return false, nil
		}
		d.handles[op.Handle] = new([pageUnits]use)
	case engine.OpMap:
		if d.handles[op.Handle] == nil || d.mapped[op.Addr] != nil || op.Size != mem.HandleSize ||
			op.Addr%mem.Addr(pageSize) != 0 {
			return false, fmt.Errorf("map of handle %d, %v, at %x, mapped there: %v", op.Handle,
				op.Size, op.Addr, d.mapped[op.Addr])
		}
		d.mapped[op.Addr] = &mapping{handle: op.Handle}
	case engine.OpAccess:
		return true, d.pages(op, func(m *mapping) error { m.access = true; return nil })
	case engine.OpUnmap:
		return true, d.unmap(op)
	case engine.OpRelease:
		return true, d.release(op)
	case engine.OpSync:
		d.seq++
		d.synced = d.seq
		return true, d.passed(func(fenceUse) bool { return true })
	case engine.OpFence:
		d.fences = append(d.fences, fenceUse{op.Fence, op.Stream})
		for i := range d.freeing.users {
			if d.freeing.users[i].stream == op.Stream {
				d.freeing.users[i].fence = op.Fence
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
			return false, errors.New("unknown as an answer to a request")
		}
	}
	return true, nil
}

// pages calls do for every page of a range, all of them mapped.
func (d *device) pages(op engine.Op, do func(*mapping) error) error {
	for a := op.Addr; a < op.Addr+mem.Addr(op.Size); a += mem.Addr(pageSize) {
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
		if m.live > 0 || m.freed > 0 && d.synced < m.freed {
			return fmt.Errorf("unmap of a page in use: %+v", *m)
		}
		return nil
	})
	for a := op.Addr; a < op.Addr+mem.Addr(op.Size); a += mem.Addr(pageSize) {
		delete(d.mapped, a)
	}
	return err
}

func (d *device) release(op engine.Op) error {
	for a, m := range d.mapped {
		if m.handle == op.Handle { // whose memory the driver would keep
			return fmt.Errorf("release of handle %d, mapped at %x", op.Handle, a)
		}
	}
	if d.handles[op.Handle] == nil {
		return fmt.Errorf("release of handle %d, which does not exist", op.Handle)
	}
	for u, x := range d.handles[op.Handle] {
		if x.owner != 0 || x.freed > 0 && d.synced < x.freed {
			return fmt.Errorf("release of handle %d, unit %d in use: %+v", op.Handle, u, x)
		}
	}
	delete(d.handles, op.Handle)
	return nil
}

// units calls do for every unit of [addr, addr+size).
func (d *device) units(op engine.Op, do func(*mapping, *use) error) error {
	for a, end := op.Addr, op.Addr+mem.Addr(op.Size); a < end; {
		page := a &^ (mem.Addr(pageSize) - 1)
		m := d.mapped[page]
		if m == nil || !m.access {
			return fmt.Errorf("%x is not accessible", a)
		}
		units := d.handles[m.handle]
		for ; a < min(end, page+mem.Addr(pageSize)); a += mem.Addr(mem.Grain) {
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
	if b, ok := d.pool.Lookup(op.Addr); !ok || b.Size != op.Size || b.Stream != ev.Stream ||
		b.Pool != ev.Pool {
		return fmt.Errorf("%+v is looked up as %+v", op, b)
	}
	d.blocks[op.Req] = &granted{op: op, stream: ev.Stream, pool: ev.Pool}
	return d.units(op, func(m *mapping, u *use) error {
		m.live++
		switch {
		case u.owner != 0:
			return fmt.Errorf("request %d shares memory with request %d", op.Req, u.owner-1)
		case u.freed > 0 && u.pool != 0 && u.pool != ev.Pool:
			return fmt.Errorf("request %d got memory of private pool %d", op.Req, u.pool)
		case u.freed > 0 && u.stream != ev.Stream && d.synced < u.freed:
			return fmt.Errorf("request %d on stream %d got memory of stream %d without a wait",
				op.Req, ev.Stream, u.stream)
		}
		u.owner, u.stream, u.pool = op.Req+1, ev.Stream, ev.Pool
		return nil
	})
}

func (d *device) record(req uint64, stream mem.StreamID) error {
	g := d.blocks[req]
	known := slices.ContainsFunc(g.users, func(w fenceUse) bool { return w.stream == stream })
	if stream != g.stream && !known {
		g.users = append(g.users, fenceUse{stream: stream})
	}
	return d.step(engine.Event{Kind: engine.EvUseStream, Addr: g.op.Addr, Stream: stream})
}

// free runs EvFree. The bytes keep their owner until every other stream that used
// the block has passed its fence or has been waited for.
func (d *device) free(req uint64) error {
	g := d.blocks[req]
	delete(d.blocks, req)
	d.seq++
	g.seq, d.freeing = d.seq, g
	waits := len(g.users) > 0
	if !waits {
		if err := d.vacate(g); err != nil {
			return err
		}
	}
	if err := d.step(engine.Event{Kind: engine.EvFree, Addr: g.op.Addr}); err != nil {
		return err
	}
	d.freeing = nil
	if len(g.users) > 0 {
		d.freed = append(d.freed, g)
	} else if waits {
		return d.vacate(g)
	}
	return nil
}

func (d *device) vacate(g *granted) error {
	return d.units(g.op, func(m *mapping, u *use) error {
		if u.owner != g.op.Req+1 {
			return fmt.Errorf("the bytes of request %d belong to request %d", g.op.Req,
				int(u.owner)-1)
		}
		m.live--
		m.stream, m.freed = g.stream, g.seq
		u.owner, u.freed = 0, g.seq
		return nil
	})
}

// passed drops the waits that done holds for, and gives free the blocks that wait
// for nothing else.
func (d *device) passed(done func(fenceUse) bool) error {
	if d.freeing != nil {
		d.freeing.users = slices.DeleteFunc(d.freeing.users, done)
	}
	var err error
	d.freed = slices.DeleteFunc(d.freed, func(g *granted) bool {
		g.users = slices.DeleteFunc(g.users, done)
		if len(g.users) > 0 {
			return false
		}
		err = errors.Join(err, d.vacate(g))
		return true
	})
	return err
}

// pass lets fence number i of those outstanding pass.
func (d *device) pass(i int) error {
	f := d.fences[i]
	d.fences = slices.Delete(d.fences, i, i+1)
	if err := d.passed(func(w fenceUse) bool { return w.fence == f.fence }); err != nil {
		return err
	}
	return d.step(engine.Event{Kind: engine.EvFence, Fence: f.fence})
}
