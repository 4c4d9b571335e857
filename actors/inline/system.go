// Package inline runs actors on the threads that send to them. A mailbox is a lock: the first
// sender runs its own message at once and then works off what others have queued meanwhile (flat
// combining). So a request never waits until a goroutine is scheduled. An actor whose work takes as
// long as a training step gets a goroutine of its own instead (SpawnBeside).
//
// It is the only package that imports protoactor-go.
package inline

import (
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// Actor owns some state and is the only one to touch it: Receive is never entered twice at a time.
type Actor interface{ Receive(message any) }

// PID names an actor of a System.
type PID = actor.PID

// System holds the actors of one device.
type System struct{ actors *actor.ActorSystem }

// NewSystem makes a system without actors, whose own warnings go to log.
func NewSystem(log *zap.Logger) *System {
	// Its notices of start and stop are of no use to a training job.
	core, err := zapcore.NewIncreaseLevelCore(log.Core(), zapcore.WarnLevel)
	if err != nil { // log is quieter than that already
		core = log.Core()
	}
	handler := zapslog.NewHandler(core)
	return &System{actor.NewActorSystem(actor.WithLoggerFactory(
		func(*actor.ActorSystem) *slog.Logger { return slog.New(handler) }))}
}

// Spawn starts an actor that runs on the threads that send to it.
func (s *System) Spawn(a Actor) *PID { return s.actors.Root.Spawn(onSender(a)) }

// SpawnBeside starts an actor with a goroutine of its own.
func (s *System) SpawnBeside(a Actor) *PID { return s.actors.Root.Spawn(beside(a)) }

// Send leaves a message and does not wait for it.
func (s *System) Send(to *PID, message any) { s.actors.Root.Send(to, message) }

// Ask sends a question and waits for its answer. As a rule the actor of Spawn has run on this very
// thread when the message is sent.
func (s *System) Ask(to *PID, q Question) {
	q.slot().reset()
	s.actors.Root.Send(to, q)
	q.slot().wait()
}

// Stop ends an actor at once: what waits for it is dropped.
func (s *System) Stop(a *PID) { _ = s.actors.Root.StopFuture(a).Wait() }

// Drain ends an actor behind what waits for it.
func (s *System) Drain(a *PID) { _ = s.actors.Root.PoisonFuture(a).Wait() }

// Shutdown ends the system.
func (s *System) Shutdown() { s.actors.Shutdown() }

func onSender(a Actor) *actor.Props {
	return beside(a).Configure(actor.WithMailbox(func() actor.Mailbox { return &mailbox{} }))
}

// beside is an actor with protoactor's mailbox. One that fails is restarted however often it does:
// protoactor's own choice is to stop it for good after the tenth time in ten seconds, and who asks
// an actor that is gone waits forever.
func beside(a Actor) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return adapter{a} },
		actor.WithGuardian(actor.RestartingSupervisorStrategy()))
}

type adapter struct{ Actor }

func (a adapter) Receive(ctx actor.Context) { a.Actor.Receive(ctx.Message()) }

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
