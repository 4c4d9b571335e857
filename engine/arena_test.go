package engine

import (
	"fmt"
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
		if next()%2 == 0 && ev.Size > 0 { // within a page
			ev.Size -= mem.Bytes(next()) * 13 * mem.Grain
		}
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
	return d.give(req, ev)
}

// give has an arena dissolved.
func (d *device) give(req uint64, ev Event) error {
	op := d.blocks[req]
	d.seq++
	d.freeing = &pending{op: op, seq: d.seq}
	err := d.step(ev)
	d.freeing = nil
	if err != nil {
		return err
	}
	return d.split(req, op, ev)
}

// continues asks for a further part of the arena and follows the part before, which has
// the rest of its last page then.
func (d *device) continues(ev Event) error {
	before := d.blocks[d.arena]
	req := before.Req
	ev.Addr, ev.Whole = before.Addr, true
	if err := d.step(ev); err != nil {
		return err
	}
	b, _ := d.eng.Lookup(before.Addr)
	rest := Op{Addr: before.Addr + mem.Addr(before.Size), Size: b.Size - before.Size}
	if rest.Size == 0 {
		return nil
	}
	if rest.Size < 0 || rest.Size >= mem.HandleSize || b.Size%mem.HandleSize != 0 {
		return fmt.Errorf("the part %+v has become %+v", before, b)
	}
	before.Size = b.Size
	d.blocks[req] = before
	return d.units(rest, func(m *mapping, u *unitUse) error {
		m.live++
		if u.owner != 0 {
			return fmt.Errorf("the rest of the page of part %+v is request %d's", before, u.owner-1)
		}
		u.owner, u.stream, u.pool = req+1, ev.Stream, ev.Pool
		return nil
	})
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
		d.arena = req<<20 + 1
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

// TestArenaIsBounded: an arena whose former memory is partly in use is made of new handles
// up to the request's bound only. Refused, it changes nothing.
func TestArenaIsBounded(t *testing.T) {
	for _, again := range []mem.Bytes{64 * mem.MiB, 128 * mem.MiB} { // where it was, and elsewhere
		d := newDevice(DefaultConfig())
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(d.step(Event{Kind: EvAlloc, Req: 1, Size: 64 * mem.MiB, Whole: true}))
		must(d.give(1, Event{Kind: EvDissolve, Parts: []mem.Addr{d.blocks[1].Addr}}))
		must(d.step(Event{Kind: EvAlloc, Req: 4, Size: 20 * mem.MiB})) // in a view of its own
		must(d.pass(0))
		need := 32 + 10 + int((again-64*mem.MiB)/mem.HandleSize)
		calls, handles := d.calls, len(d.handles)
		must(d.step(Event{Kind: EvAlloc, Req: 2, Size: again, Whole: true, Most: need - 1}))
		if d.refused.Req != 2 || d.refused.Reason != RefusedMost || d.calls != calls || len(d.handles) != handles {
			t.Errorf("%v: %+v with %d calls and %d new handles", again, d.refused, d.calls-calls, len(d.handles)-handles)
		}
		must(d.eng.Check())
		must(d.step(Event{Kind: EvAlloc, Req: 3, Size: again, Whole: true, Most: need}))
		if _, ok := d.blocks[3]; !ok || len(d.handles) != need {
			t.Errorf("%v: granted %t with %d handles, expected %d", again, ok, len(d.handles), need)
		}
		must(d.eng.Check())
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

// TestArenaEndsWithinAPage dissolves an arena but for its first page and a half. What
// stays can be lengthened again once nothing is left in the other half.
func TestArenaEndsWithinAPage(t *testing.T) {
	d := newDevice(DefaultConfig())
	must := func(err error) {
		t.Helper()
		if err == nil {
			err = d.eng.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const stays, more = 3 * mem.MiB, 6 * mem.MiB
	must(d.step(Event{Kind: EvAlloc, Req: 1, Size: 8 * mem.MiB, Whole: true}))
	op := d.blocks[1]
	kept := Range{Addr: op.Addr + mem.Addr(stays), Size: 2 * mem.MiB} // on both sides of a page's end
	must(d.give(1, Event{Kind: EvDissolve, Parts: []mem.Addr{op.Addr}, Size: stays, Keep: []Range{kept}}))
	if s := d.eng.Stats(); s.Load != stays+kept.Size {
		t.Fatalf("%v are live, expected %v", s.Load, stays+kept.Size)
	}

	must(d.step(Event{Kind: EvAlloc, Req: 2, Size: more, Addr: op.Addr, Whole: true}))
	if d.refused.Reason != RefusedWindow {
		t.Fatalf("a block lies behind the arena, and it got %+v", d.blocks[2])
	}
	for req, b := range d.blocks {
		if b.Addr == kept.Addr {
			must(d.free(req))
		}
	}
	must(d.pass(0)) // work behind the arena's addresses
	must(d.continues(Event{Kind: EvAlloc, Req: 3, Size: more}))
	if got := d.blocks[3]; got.Addr != op.Addr+mem.Addr(4*mem.MiB) || d.blocks[1<<20+1].Size != 4*mem.MiB {
		t.Errorf("the arena goes on with %+v behind %+v", got, d.blocks[1<<20+1])
	}
	must(d.finish())
}
