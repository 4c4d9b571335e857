package actors

import "sync/atomic"

// answer is the reply slot of a message.
type answer struct {
	state atomic.Int32
	wake  chan struct{}
	err   error
}

const (
	unanswered int32 = iota
	answered
	awaited
)

func (a *answer) reset() {
	a.state.Store(unanswered)
	a.err = nil
}

// reply publishes what the receiver wrote into the message.
func (a *answer) reply(err error) {
	a.err = err
	if a.state.Swap(answered) == awaited {
		a.wake <- struct{}{}
	}
}

// wait returns once the message is answered.
func (a *answer) wait() {
	if a.state.Load() == answered {
		return
	}
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
	}
	if a.state.CompareAndSwap(unanswered, awaited) {
		<-a.wake
	}
}

func (a *answer) slot() *answer { return a }

// question is a message that is answered.
type question interface{ slot() *answer }
