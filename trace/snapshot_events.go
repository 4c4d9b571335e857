package trace

import (
	"fmt"
	"io"
	"math"

	"stalloc/internal/mem"
)

// advance queues the events of the next block of the set-up, or of the next
// action, if it has any. It returns io.EOF after the last.
func (s *snapshot) advance() error {
	s.queue, s.due = s.queue[:0], 0
	if len(s.setup) > 0 {
		b := s.setup[0]
		s.setup = s.setup[1:]
		s.begin(b.addr, b.size, b.stream, 0, b.from)
		return nil
	}
	if s.at == len(s.actions) {
		return io.EOF
	}
	a, err := s.action(s.at)
	if err != nil {
		return err
	}
	s.at++
	micros := max(a.time-s.start, 0)
	block, known := s.live[a.addr]
	switch a.what {
	case wordAlloc:
		if known {
			s.skipped.Lost++
			s.end(a.addr, block, micros)
		}
		s.begin(a.addr, a.size, a.stream, micros, a.from)
	case wordFreeRequested:
		if !known || block.requested {
			s.skipped.Frees++
			return nil
		}
		s.live[a.addr] = liveBlock{id: block.id, requested: true}
		s.queue = append(s.queue, Event{Kind: FreeRequested, ID: block.id, Micros: micros})
	case wordFreeCompleted:
		if !known {
			s.skipped.Frees++
			return nil
		}
		s.end(a.addr, block, micros)
	}
	return nil
}

func (s *snapshot) begin(addr, size, stream, micros int64, from value) {
	number, ok := s.streams[stream]
	if !ok {
		number = mem.StreamID(len(s.streams))
		s.streams[stream] = number
	}
	s.live[addr] = liveBlock{id: s.ids}
	s.stacks.add(s.ids, from)
	s.queue = append(s.queue, Event{Kind: Alloc, ID: s.ids, Size: mem.Bytes(size), Stream: number,
		Micros: micros})
	s.ids++
}

func (s *snapshot) end(addr int64, block liveBlock, micros int64) {
	if !block.requested {
		s.queue = append(s.queue, Event{Kind: FreeRequested, ID: block.id, Micros: micros})
	}
	s.queue = append(s.queue, Event{Kind: FreeCompleted, ID: block.id, Micros: micros})
	delete(s.live, addr)
}

// activeBlocks lists the active blocks of all segments, by device and in the
// order of the snapshot.
func (s *snapshot) activeBlocks(segments []value) (map[int][]setupBlock, error) {
	active := make(map[int][]setupBlock)
	// lists of blocks: a shared one would be read once for every segment
	seen := make(map[int64]bool)
	for i, v := range segments {
		place := func() string { return fmt.Sprintf("segment %d", i) }
		if v.kind != valueDict {
			return nil, s.fail("a dictionary as "+place(), v.kind.String())
		}
		device, err := s.natural(v, wordDevice, false, place)
		if err != nil {
			return nil, err
		}
		blocks, ok := s.p.lookup(v, wordBlocks)
		if !ok || blocks.kind != valueList {
			return nil, s.fail(`a list "blocks" in `+place(), present(blocks, ok))
		}
		if seen[blocks.n] {
			return nil, s.fail("segments with blocks of their own",
				place()+" with those of another")
		}
		seen[blocks.n] = true
		found, err := s.segmentBlocks(v, s.p.lists[blocks.n], place)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			active[int(device)] = append(active[int(device)], found...)
		}
	}
	return active, nil
}

// segmentBlocks lists the active blocks of one segment. Snapshots of older
// releases give a block no address and no requested size: blocks lie end to
// end, and what was requested is then taken to be the block.
func (s *snapshot) segmentBlocks(segment value, blocks []value, place func() string) ([]setupBlock,
	error) {
	stream, err := s.natural(segment, wordStream, false, place)
	if err != nil {
		return nil, err
	}
	addr, err := s.natural(segment, wordAddress, true, place)
	if err != nil {
		return nil, err
	}
	var active []setupBlock
	for i, v := range blocks {
		place := func() string { return fmt.Sprintf("block %d of %s", i, place()) }
		if v.kind != valueDict {
			return nil, s.fail("a dictionary as "+place(), v.kind.String())
		}
		size, err := s.natural(v, wordSize, true, place)
		if err != nil {
			return nil, err
		}
		asked := size
		for _, f := range [...]struct {
			key word
			to  *int64
		}{{wordAddress, &addr}, {wordRequestedSize, &asked}} {
			if _, ok := s.p.lookup(v, f.key); !ok {
				continue
			}
			if *f.to, err = s.natural(v, f.key, true, place); err != nil {
				return nil, err
			}
		}
		state, ok := s.p.lookup(v, wordState)
		if !ok || state.kind != valueWord && state.kind != valueString {
			return nil, s.fail(`a string "state" in `+place(), present(state, ok))
		}
		if state.kind == valueWord && isActive(word(state.n)) {
			active = append(active, setupBlock{addr: addr, size: asked, stream: stream, from: v})
		}
		if size > math.MaxInt64-addr {
			return nil, s.fail("a possible address and size in "+place(),
				fmt.Sprintf("%d and %d", addr, size))
		}
		addr += size
	}
	return active, nil
}

// isActive says whether a block in that state is still part of the load: one
// whose free waits for another stream is.
func isActive(state word) bool {
	return state == wordActiveAllocated || state == wordActivePendingFree ||
		state == wordActiveAwaitingFree
}

// lookup returns the value under key in the dictionary v.
func (p *pickle) lookup(v value, key word) (value, bool) {
	d := p.dicts[v.n]
	for _, f := range p.field[d.first:d.end] {
		if f.key == key {
			return f, true
		}
	}
	return value{}, false
}

// list returns the list under key in the dictionary v; a missing one is empty.
func (s *snapshot) list(v value, key word, place string) ([]value, error) {
	switch got, ok := s.p.lookup(v, key); {
	case !ok:
		return nil, nil
	case got.kind != valueList:
		return nil, s.fail(fmt.Sprintf("a list %q in %s", key, place), got.kind.String())
	default:
		return s.p.lists[got.n], nil
	}
}

// natural returns the integer of at least 0 under key in the dictionary v; a
// missing one is 0 unless it is needed.
func (s *snapshot) natural(v value, key word, needed bool, place func() string) (int64, error) {
	got, ok := s.p.lookup(v, key)
	if !ok && !needed {
		return 0, nil
	}
	if !ok || got.kind != valueInt || got.n < 0 {
		return 0, s.fail(fmt.Sprintf("an integer %q of at least 0 in %s", key, place()),
			present(got, ok))
	}
	return got.n, nil
}

// present describes what a lookup gave.
func present(v value, ok bool) string {
	switch {
	case !ok:
		return "none"
	case v.kind == valueInt:
		return fmt.Sprintf("%d", v.n)
	}
	return v.kind.String()
}
