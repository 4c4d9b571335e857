//go:build cgo

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"stalloc"
	"stalloc/trace"
)

// memory is what the replay needs of stalloc.Allocator.
type memory interface {
	Malloc(stalloc.Stream, stalloc.Bytes) (stalloc.Addr, error)
	Free(stalloc.Addr) error
	Record(stalloc.Addr, stalloc.Stream) error
	Step() error
}

// replay is a recording and the threads that follow it.
type replay struct {
	memory  memory
	bytes   contents
	events  []trace.Event
	threads []*thread
	pause   time.Duration
	repeats int // of the last step, behind the recording
}

// look is how many repeated steps there are from one whose bytes are checked to the next.
const look = 50

// addThreads makes threads, the first on the default stream, each further one on
// a stream of its own and with blocks smaller than those of the one before.
func (r *replay) addThreads(n int, scale int64, newStream func() (stalloc.Stream, error)) error {
	for i := range n {
		t := &thread{replay: r, number: uint64(i), scale: scale * int64(i+1),
			blocks: make(map[int64]block)}
		if i > 0 {
			var err error
			if t.stream, err = newStream(); err != nil {
				return err
			}
		}
		r.threads = append(r.threads, t)
	}
	for i, t := range r.threads {
		t.neighbour = r.threads[(i+1)%n].stream
	}
	return nil
}

// run follows the recording from one step boundary to the next, then its last step again
// and again, and frees what is left.
func (r *replay) run() error {
	var last []trace.Event // of the steps
	for len(r.events) > 0 {
		end := slices.IndexFunc(r.events, boundary)
		part := r.events
		if end >= 0 {
			part, r.events = r.events[:end], r.events[end+1:]
			last = part
		} else {
			r.events = nil
		}
		if err := r.step(part, end >= 0, true); err != nil {
			return err
		}
	}
	for i := range r.repeats {
		if err := r.step(last, true, i%look == look-1); err != nil {
			return err
		}
	}
	for _, t := range r.threads {
		for id := range t.blocks {
			if err := t.free(id, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// step has all threads follow a part of the recording at once, and ends the step, if it is
// a whole one, when the last of them has done its part.
func (r *replay) step(part []trace.Event, whole, looks bool) error {
	errs := make([]error, len(r.threads))
	var threads sync.WaitGroup
	for i, t := range r.threads {
		threads.Go(func() { errs[i] = t.follow(part, looks) })
	}
	threads.Wait()
	if err := errors.Join(errs...); err != nil || !whole {
		return err
	}
	if err := r.memory.Step(); err != nil {
		return err
	}
	time.Sleep(r.pause)
	return nil
}

func boundary(e trace.Event) bool {
	return e.Kind == trace.Mark && (e.Mark == "end" || strings.HasPrefix(e.Mark, "step "))
}

// thread is one of the program's threads and the blocks it owns.
type thread struct {
	replay    *replay
	number    uint64
	stream    stalloc.Stream
	neighbour stalloc.Stream
	scale     int64
	blocks    map[int64]block // by the recording's number
	looks     bool            // blocks are filled and checked
	checked   stalloc.Bytes
	spent     time.Duration // in the allocator
}

type block struct {
	addr stalloc.Addr
	size stalloc.Bytes
	tag  uint64 // of its pattern; 0: it has none
}

// lend is how many requests lie between two blocks that are lent to the next
// stream, counted anew in each step, so that steps are alike.
const lend = 97

// follow does one thread's part of a step.
func (t *thread) follow(events []trace.Event, looks bool) error {
	t.looks = looks
	requests := 0
	lent := make(map[int64]bool)
	for _, e := range events {
		var err error
		switch e.Kind {
		case trace.Alloc:
			requests++
			lent[e.ID] = requests%lend == 0
			err = t.malloc(e.ID, (e.Size+stalloc.Bytes(t.scale)-1)/stalloc.Bytes(t.scale))
		case trace.FreeRequested:
			// in a repeated step its first turn may have freed it
			if _, live := t.blocks[e.ID]; live {
				err = t.free(e.ID, lent[e.ID])
			}
		}
		if err != nil {
			return fmt.Errorf("thread %d, block %d: %w", t.number, e.ID, err)
		}
	}
	return nil
}

func (t *thread) malloc(id int64, size stalloc.Bytes) error {
	if _, live := t.blocks[id]; live { // what the last turn of a repeated step has kept
		if err := t.free(id, false); err != nil {
			return err
		}
	}
	start := time.Now()
	addr, err := t.replay.memory.Malloc(t.stream, size)
	t.spent += time.Since(start)
	if err != nil {
		return err
	}
	b := block{addr: addr, size: size}
	if t.looks {
		b.tag = (t.number+1)<<56 | uint64(id)
	}
	t.blocks[id] = b
	if !t.looks {
		return nil
	}
	return fill(t.replay.bytes, b)
}

// free checks a block's bytes and gives it back. A block that was lent is in use
// on the neighbour's stream until that has passed this point.
func (t *thread) free(id int64, lent bool) error {
	b := t.blocks[id]
	delete(t.blocks, id)
	if b.tag != 0 {
		if err := check(t.replay.bytes, b); err != nil {
			return err
		}
		t.checked += b.size
	}
	start := time.Now()
	defer func() { t.spent += time.Since(start) }()
	if lent {
		if err := t.replay.memory.Record(b.addr, t.neighbour); err != nil {
			return err
		}
	}
	return t.replay.memory.Free(b.addr)
}
