package trace

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stalloc/internal/mem"
)

// Skipped counts what could not be told from a snapshot. PyTorch's history is
// a ring: when it is full, a new event takes the place of the oldest one.
type Skipped struct {
	Frees int // frees without their alloc, left out
	// blocks live at the end whose alloc was not recorded though the address was in use before,
	// left out
	Blocks int
	Lost   int // blocks whose address was given out again without a recorded free; they end there
}

// snapshot turns a decoded snapshot into events:
//
//	segments       blocks that are active and were allocated before the ring
//	               begins: mark "setup" and one Alloc each
//	device_traces  alloc, free_requested, free_completed of one device; all
//	               other actions are about the allocator, not the program
//
// Addresses come again, so a block gets a fresh id at its alloc and is found
// by its address until free_completed. Streams are pointers there; here they
// are numbered by first appearance, the default stream being 0.
type snapshot struct {
	p       *pickle
	device  int
	actions []value // the device's trace
	at      int     // the next action
	setup   []setupBlock
	queue   []Event // what the last action stands for
	due     int     // the first of the queue that was not returned yet
	live    map[int64]liveBlock
	streams map[int64]mem.StreamID
	ids     int64
	start   int64 // time_us of the first action
	ledger  ledger
	skipped Skipped
	stacks  *Stacks // nil unless asked for
}

type setupBlock struct {
	addr, size, stream int64
	from               value // the dictionary that names it
}

type liveBlock struct {
	id        int64
	requested bool // its free was
}

// action is one entry of a device's trace.
type action struct {
	what                     word // wordNone if it is of no interest
	addr, size, stream, time int64
	from                     value
}

// readSnapshot decodes a snapshot and finds what was live before its ring.
func readSnapshot(in *bufio.Reader, raw *meter, file string, o options) (*snapshot, error) {
	p := &pickle{in: in, raw: raw, file: file, most: o.cells}
	if o.frames {
		p.strings = make(map[string]int64)
	}
	root, err := p.decode()
	if err != nil {
		return nil, err
	}
	s := &snapshot{p: p, live: make(map[int64]liveBlock), streams: map[int64]mem.StreamID{0: 0}}
	if o.frames {
		s.stacks = newStacks(p)
	}
	if root.kind != valueDict {
		return nil, s.fail(`a snapshot: a dictionary with "segments" and "device_traces"`,
			root.kind.String())
	}
	traces, err := s.list(root, wordDeviceTraces, "the snapshot")
	if err != nil {
		return nil, err
	}
	segments, err := s.list(root, wordSegments, "the snapshot")
	if err != nil {
		return nil, err
	}
	active, err := s.activeBlocks(segments)
	if err != nil {
		return nil, err
	}
	if err := s.choose(o.device, traces, active); err != nil {
		return nil, err
	}
	if err := s.plan(active[s.device]); err != nil {
		return nil, err
	}
	return s, nil
}

// choose picks the device and its trace.
func (s *snapshot) choose(wanted int, traces []value, active map[int][]setupBlock) error {
	found, there := false, slices.Sorted(maps.Keys(active))
	for number, v := range traces {
		if v.kind != valueList {
			return s.fail(fmt.Sprintf("a list as trace of device %d", number), v.kind.String())
		}
		actions := s.p.lists[v.n]
		if len(actions) > 0 && !slices.Contains(there, number) {
			there = append(there, number)
		}
		if number == wanted || wanted == anyDevice && !found && len(actions) > 0 {
			s.device, s.actions, found = number, actions, true
		}
	}
	if wanted != anyDevice {
		s.device = wanted
	} else if !found && len(there) > 0 {
		s.device = there[0]
	}
	if len(s.actions) > 0 || len(active[s.device]) > 0 {
		return nil
	}
	want, got, remedy := "a snapshot with allocations", "none", "call torch.cuda.memory._record_memory_history() before the run"
	if wanted != anyDevice {
		want += fmt.Sprintf(" of device %d", wanted)
	}
	if len(there) > 0 {
		got, remedy = fmt.Sprintf("those of %v", there), "choose one of these devices"
	}
	e := s.fail(want, got)
	e.Remedy = remedy
	return e
}

// plan reads every action once, so that a bad one is found before the first
// event, and keeps the active blocks that are older than the ring.
func (s *snapshot) plan(active []setupBlock) error {
	open := make(map[int64]bool) // by address: whether its last alloc is still live
	for i := range s.actions {
		a, err := s.action(i)
		if err != nil {
			return err
		}
		if i == 0 {
			s.start = a.time
		}
		switch a.what {
		case wordAlloc:
			open[a.addr] = true
		case wordFreeCompleted:
			open[a.addr] = false
		}
	}
	for _, b := range active {
		switch live, known := open[b.addr]; {
		case !known:
			s.setup = append(s.setup, b)
		case !live:
			s.skipped.Blocks++
		}
	}
	if len(s.setup) > 0 {
		s.queue = append(s.queue, Event{Kind: Mark, Mark: "setup"})
	}
	return nil
}

// action reads entry i of the device's trace.
func (s *snapshot) action(i int) (action, error) {
	place := func() string { return fmt.Sprintf("event %d of device %d", i, s.device) }
	v := s.actions[i]
	if v.kind != valueDict {
		return action{}, s.fail("a dictionary as "+place(), v.kind.String())
	}
	a := action{from: v}
	switch what, ok := s.p.lookup(v, wordAction); {
	case !ok:
		return a, s.fail(`"action" in `+place(), "none")
	case what.kind == valueWord:
		a.what = word(what.n)
	case what.kind != valueString:
		return a, s.fail(`a string "action" in `+place(), what.kind.String())
	}
	if a.what != wordAlloc && a.what != wordFreeRequested && a.what != wordFreeCompleted {
		a.what = wordNone
	}
	needed := a.what != wordNone // "oom" and "snapshot" have other fields
	for _, f := range [...]struct {
		key    word
		needed bool
		to     *int64
	}{{wordAddr, needed, &a.addr}, {wordSize, a.what == wordAlloc, &a.size}, {wordStream, false,
		&a.stream}, {wordTimeUs, false, &a.time}} {
		if !needed && f.key != wordTimeUs {
			continue
		}
		var err error
		if *f.to, err = s.natural(v, f.key, f.needed, place); err != nil {
			return a, err
		}
	}
	return a, nil
}

// next returns the next event: what is queued, then the set-up, then what the
// next action stands for.
func (s *snapshot) next() (Event, error) {
	for {
		if s.due < len(s.queue) {
			e := s.queue[s.due]
			s.due++
			if want, got := s.ledger.apply(&e); want != "" {
				return Event{}, s.fail(want, got)
			}
			return e, nil
		}
		if err := s.advance(); err != nil {
			return Event{}, err
		}
	}
}

// fail makes an error whose place is in the text: the value's byte offset is
// not kept.
func (s *snapshot) fail(want, got string) *FormatError {
	return &FormatError{File: s.p.file, Offset: -1, Want: want, Got: got}
}

// snapshotHeader is the header of a snapshot's trace.
func snapshotHeader(name string, device int) string {
	return fmt.Sprintf("workload %s snapshot device %d", strings.Join(strings.Fields(name), " "),
		device)
}
