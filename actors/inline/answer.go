package inline

import "sync/atomic"

// Answer is the reply slot of a message: whoever embeds it is a Question.
type Answer struct {
	Err error

	state atomic.Int32
	wake  chan struct{}
}

const (
	unanswered int32 = iota
	answered
	awaited
)

// Question is a message that is answered.
type Question interface{ slot() *Answer }

// Reply answers a question: the receiver has written the rest into the message.
func Reply(q Question, err error) { q.slot().reply(err) }

// Again is the slot for another question in the same message. The channel stays.
func (a *Answer) Again() Answer { return Answer{wake: a.wake} }

func (a *Answer) slot() *Answer { return a }

func (a *Answer) reset() {
	a.state.Store(unanswered)
	a.Err = nil
}

func (a *Answer) reply(err error) {
	a.Err = err
	if a.state.Swap(answered) == awaited {
		a.wake <- struct{}{}
	}
}

// wait returns once the message is answered.
func (a *Answer) wait() {
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

// Call runs a function on an actor's state.
type Call[State any] struct {
	Answer
	Do func(State) error
	// Broken runs in its place if the actor's state cannot be trusted any more; nil: nothing does,
	// and the answer is an error.
	Broken func(State) error
}
