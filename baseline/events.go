package baseline

import (
	"fmt"

	"stalloc/internal/mem"
)

// events are the frees that wait for other streams: what insert_events records
// and process_events polls.
type events struct {
	uses   map[int32][]int32 // streams recorded for a live block, its own excluded
	queues []queue           // by interned stream
	ready  []int32           // deferred blocks whose Complete came
	due    bool              // there is something for the next Malloc to notice
	count  int               // blocks waiting
}

// queue holds the blocks that wait for one stream, in the order their events
// were recorded. The work of a stream passes in that order.
type queue struct {
	blocks []int32
	passed int // how many of them have passed
}

// pass marks the first n events as passed.
func (e *events) pass(q *queue, n int) {
	if n > q.passed {
		q.passed = n
		e.due = true
	}
}

func (c *core) RecordStream(h Block, s mem.StreamID) error {
	i, err := c.findLive(h, "record_stream")
	if err != nil {
		return err
	}
	b, on := &c.blocks[i], c.intern(s)
	if on == b.stream {
		return nil
	}
	if c.pending.uses == nil {
		c.pending.uses = map[int32][]int32{}
	}
	for _, u := range c.pending.uses[i] {
		if u == on {
			return nil
		}
	}
	b.used = true
	c.pending.uses[i] = append(c.pending.uses[i], on)
	return nil
}

func (c *core) Defer(h Block) error {
	i, err := c.findLive(h, "deferral")
	if err == nil {
		c.blocks[i].deferred = true
	}
	return err
}

func (c *core) findLive(h Block, doing string) (int32, error) {
	i, err := c.find(h, doing)
	if err == nil && c.blocks[i].state != live {
		err = fmt.Errorf("baseline: %s of a block already freed: %w", doing, ErrUnknownBlock)
	}
	return i, err
}

// startWaiting records the events a freed block waits for.
func (c *core) startWaiting(i int32) {
	b := &c.blocks[i]
	b.state = waiting
	b.waits = 0
	if b.deferred {
		b.waits++
	}
	if b.used {
		for _, s := range c.pending.uses[i] {
			q := &c.pending.queues[s]
			q.blocks = append(q.blocks, i)
			b.waits++
		}
		delete(c.pending.uses, i)
	}
	c.pending.count++
}

func (c *core) Complete(h Block) error {
	i, err := c.find(h, "completion")
	if err != nil {
		return err
	}
	b := &c.blocks[i]
	if b.state == live {
		return fmt.Errorf("baseline: completion of the block at %v: %w", Place{b.space, b.addr},
			ErrNotFreed)
	}
	if b.deferred {
		b.deferred = false
		c.pending.ready = append(c.pending.ready, i)
		c.pending.due = true
	}
	if b.used {
		for s := range c.pending.queues {
			q := &c.pending.queues[s]
			for k := len(q.blocks) - 1; k >= q.passed; k-- {
				if q.blocks[k] == i {
					c.pending.pass(q, k+1)
					break
				}
			}
		}
	}
	return nil
}

func (c *core) Synchronize() {
	e := &c.pending
	for s := range e.queues {
		e.pass(&e.queues[s], len(e.queues[s].blocks))
	}
	if e.count == 0 {
		return
	}
	for i := range c.blocks {
		if b := &c.blocks[i]; b.state == waiting && b.deferred {
			b.deferred = false
			e.ready = append(e.ready, int32(i))
			e.due = true
		}
	}
}

// processEvents frees the blocks whose events have passed. PyTorch does this at
// the start of every malloc and nowhere else, so that is the earliest reuse.
func (c *core) processEvents() {
	e := &c.pending
	if !e.due {
		return
	}
	e.due = false
	for s := range e.queues {
		q := &e.queues[s]
		for _, i := range q.blocks[:q.passed] {
			c.eventPassed(i)
		}
		q.blocks = append(q.blocks[:0], q.blocks[q.passed:]...)
		q.passed = 0
	}
	for _, i := range e.ready {
		c.eventPassed(i)
	}
	e.ready = e.ready[:0]
}

func (c *core) eventPassed(i int32) {
	b := &c.blocks[i]
	if b.waits--; b.waits == 0 {
		c.pending.count--
		c.back.reclaim(i)
	}
}

// drainEvents waits for all work, as PyTorch does before it flushes.
func (c *core) drainEvents() {
	c.Synchronize()
	c.processEvents()
}
