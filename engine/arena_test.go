package engine

import (
	"testing"

	"stalloc/internal/mem"
)

// dissolve gives the last arena to the pool, but for some ranges in it.
func (d *device) dissolve(next func() int) error {
	req := d.arena
	op, ok := d.blocks[req]
	if !ok || len(d.users[req]) > 0 {
		return nil
	}
	ev := Event{Kind: EvDissolve, Parts: []mem.Addr{op.Addr}}
	if d.alone(op) {
		ev.Size = mem.Bytes(next()%3) * mem.HandleSize
		ev.Size = min(ev.Size, op.Size)
	}
	at := op.Addr + mem.Addr(ev.Size)
	for end := op.Addr + mem.Addr(op.Size); at < end; {
		at += mem.Addr(next()+1) * 5 * mem.Addr(mem.Grain)
		n := mem.Bytes(next()+1) * 11 * mem.Grain
		if at+mem.Addr(n) > end {
			break
		}
		ev.Keep = append(ev.Keep, Range{Addr: at, Size: n})
		at += mem.Addr(n)
	}
	d.seq++
	d.freeing = &pending{op: op, seq: d.seq}
	err := d.step(ev)
	d.freeing = nil
	if err != nil {
		return err
	}
	return d.split(req, op, ev)
}

// alone reports whether an arena is the first part in its view.
func (d *device) alone(op Op) bool {
	b := d.eng.blockOf(op.Addr)
	return b != 0 && d.eng.views[d.eng.blocks[b].view].start() == d.eng.blocks[b].at
}

// split does in the model what the engine should have done.
func (d *device) split(req uint64, op Op, ev Event) error {
	stream := d.streams[req]
	delete(d.blocks, req)
	ranges := ev.Keep
	if ev.Size > 0 {
		ranges = append([]Range{{Addr: op.Addr, Size: ev.Size}}, ranges...)
	}
	owner := map[mem.Addr]uint64{}
	for i, r := range ranges {
		id := req<<20 + uint64(i) + 1
		d.blocks[id], d.streams[id] = Op{Kind: OpGrant, Req: id, Addr: r.Addr, Size: r.Size}, stream
		for a := r.Addr; a < r.Addr+mem.Addr(r.Size); a += mem.Addr(mem.Grain) {
			owner[a] = id
		}
	}
	at := op.Addr
	return d.units(op, func(m *mapping, u *unitUse) error {
		if id := owner[at]; id != 0 {
			u.owner = id + 1
		} else {
			u.owner, u.freed = 0, d.seq
			m.live--
			m.stream, m.freed = stream, d.seq
		}
		at += mem.Addr(mem.Grain)
		return nil
	})
}

// TestArenaComesBackWithoutMaps dissolves an arena and takes it up again.
func TestArenaComesBackWithoutMaps(t *testing.T) {
	d := newDevice(DefaultConfig())
	step := func(ev Event) Op {
		t.Helper()
		if err := d.step(ev); err != nil {
			t.Fatal(err)
		}
		return d.blocks[ev.Req]
	}
	first := step(Event{Kind: EvAlloc, Req: 1, Size: 64 * mem.MiB, Whole: true})
	if err := d.dissolve(func() int { return 3 << 20 }); err != nil { // nothing lives in it
		t.Fatal(err)
	}
	step(Event{Kind: EvAlloc, Req: 2, Size: 64 * mem.MiB})
	if d.eng.Stats().Creates != 32 {
		t.Fatalf("the pool made handles although the arena lay idle: %+v", d.eng.Stats())
	}
	if err := d.free(2); err != nil {
		t.Fatal(err)
	}
	calls := d.calls
	again := step(Event{Kind: EvAlloc, Req: 3, Size: 64 * mem.MiB, Whole: true})
	if again.Addr != first.Addr || d.calls != calls {
		t.Errorf("the arena came back at %x with %d calls, was at %x", again.Addr, d.calls-calls, first.Addr)
	}
	if err := d.eng.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestPreparedArenaIsGrantedWithoutCalls maps an arena while its handles are in
// use.
func TestPreparedArenaIsGrantedWithoutCalls(t *testing.T) {
	d := newDevice(DefaultConfig())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.step(Event{Kind: EvAlloc, Req: 1, Size: 64 * mem.MiB}))
	must(d.free(1))
	must(d.step(Event{Kind: EvPrepare, Size: 64 * mem.MiB, Most: 5}))
	must(d.step(Event{Kind: EvAlloc, Req: 2, Size: 64 * mem.MiB})) // the pool goes on
	for before := -1; before != d.calls; {
		before = d.calls
		must(d.step(Event{Kind: EvPrepare, Most: 5}))
		must(d.eng.Check())
	}
	must(d.free(2))
	calls := d.calls
	must(d.step(Event{Kind: EvAlloc, Req: 3, Size: 64 * mem.MiB, Whole: true}))
	if d.calls != calls {
		t.Errorf("%d driver calls for an arena that was prepared", d.calls-calls)
	}
	must(d.eng.Check())
	if s := d.eng.Stats(); s.Handles != 32 {
		t.Errorf("%d handles for 64 MiB", s.Handles)
	}
}

// TestArenaHasRoom lengthens an arena, while the pool takes memory as well, to the
// end of the addresses that were set aside for it.
func TestArenaHasRoom(t *testing.T) {
	d := newDevice(DefaultConfig())
	const part, room = 2 * mem.MiB, 256 * mem.MiB
	must := func(ev Event) Op {
		t.Helper()
		if err := d.step(ev); err != nil {
			t.Fatal(err)
		}
		op, ok := d.blocks[ev.Req]
		if !ok {
			t.Fatalf("request %d was refused", ev.Req)
		}
		return op
	}
	last := must(Event{Kind: EvAlloc, Req: 1, Size: part, Room: room, Whole: true})
	for req, held := uint64(2), part; held < room; held += part {
		must(Event{Kind: EvAlloc, Req: req, Size: 3 * mem.MiB})
		next := must(Event{Kind: EvAlloc, Req: req + 1, Size: part, Addr: last.Addr, Whole: true})
		if next.Addr != last.Addr+mem.Addr(part) {
			t.Fatalf("the part behind %x lies at %x", last.Addr, next.Addr)
		}
		last = next
		req += 2
	}
	if err := d.eng.Check(); err != nil {
		t.Fatal(err)
	}
}
