package order

import "fmt"

// Check recounts what is outstanding. Each waiter waits for one event, is late, or is over, and no
// number of an event or of a fence is there twice.
func (e *Engine) Check() error {
	f := &e.fences
	n, urgent, late := 0, 0, 0
	events, waiters := map[any]bool{}, map[waiter]bool{}
	once := func(list []waiter) error {
		for _, w := range list {
			if waiters[w] {
				return fmt.Errorf("fence %d waits twice", w.fence)
			}
			waiters[w] = true
		}
		return nil
	}
	for _, q := range f.queues {
		if len(q.events) == 0 {
			return fmt.Errorf("stream %#x has a queue without events", uint64(q.stream))
		}
		for i, x := range q.events {
			if events[x.number] || i > 0 && x.number <= q.events[i-1].number {
				return fmt.Errorf("event %d of stream %#x is out of order", x.number,
					uint64(q.stream))
			}
			events[x.number] = true
			if err := once(x.waiters); err != nil {
				return err
			}
			n += len(x.waiters)
			for _, w := range x.waiters {
				if w.urgent {
					urgent++
				}
			}
		}
	}
	for _, list := range f.late {
		late += len(list)
		if err := once(list); err != nil {
			return err
		}
	}
	if n != f.n || urgent != f.urgent || late != f.lateN {
		return fmt.Errorf("%d waiters, %d of them urgent, and %d late; counted are %d, %d, %d",
			n, urgent, late, f.n, f.urgent, f.lateN)
	}
	return once(f.passed)
}
