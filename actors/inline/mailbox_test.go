package inline

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// ping is a message that is answered.
type ping struct {
	Answer
	from, number int
}

// counter checks that it is never entered twice, and that each sender's messages
// come in order.
type counter struct {
	t      *testing.T
	inside atomic.Int32
	last   map[int]int
	fails  int // every so many messages
	seen   int
}

func (c *counter) Receive(message any) {
	p, ok := message.(*ping)
	if !ok {
		return
	}
	if c.inside.Add(1) != 1 {
		c.t.Error("two threads are in one actor")
	}
	defer c.inside.Add(-1)
	if last := c.last[p.from]; p.number != last+1 {
		c.t.Errorf("sender %d: message %d after %d", p.from, p.number, last)
	}
	c.last[p.from] = p.number
	if c.seen++; c.fails > 0 && c.seen%c.fails == 0 {
		p.reply(errors.New("failed on purpose"))
		panic("failed on purpose")
	}
	p.reply(nil)
}

func TestMailboxFromManyThreads(t *testing.T) {
	for _, fails := range []int{0, 50} {
		system := NewSystem(zap.NewNop())
		c := &counter{t: t, last: map[int]int{}, fails: fails}
		pid := system.Spawn(c)
		const senders, messages = 8, 3000
		var all sync.WaitGroup
		for from := range senders {
			all.Go(func() {
				for n := 1; n <= messages; n++ {
					p := &ping{from: from, number: n}
					system.Ask(pid, p)
				}
			})
		}
		all.Wait()
		for from := range senders {
			if c.last[from] != messages {
				t.Errorf("%d of %d messages of sender %d arrived", c.last[from], messages, from)
			}
		}
		system.Shutdown()
	}
}

func TestMailboxAllocatesNothing(t *testing.T) {
	system := NewSystem(zap.NewNop())
	defer system.Shutdown()
	c := &counter{t: t, last: map[int]int{}}
	pid := system.Spawn(c)
	p, n := &ping{}, 0
	if allocations := testing.AllocsPerRun(100, func() {
		n++
		p.number = n
		system.Ask(pid, p)
	}); allocations != 0 {
		t.Errorf("a message costs %v allocations", allocations)
	}
}

func BenchmarkMailbox(b *testing.B) {
	for name, props := range map[string]func(Actor) *actor.Props{
		"ours": onSender,
		"protoactor": func(a Actor) *actor.Props {
			dispatcher := actor.NewSynchronizedDispatcher(1 << 20)
			return beside(a).Configure(actor.WithDispatcher(dispatcher))
		},
	} {
		b.Run(name, func(b *testing.B) {
			system := NewSystem(zap.NewNop())
			defer system.Shutdown()
			pid := system.actors.Root.Spawn(props(replying{}))
			p := &ping{}
			b.ReportAllocs()
			for b.Loop() {
				system.Ask(pid, p)
			}
		})
	}
}

// replying is an actor that only answers.
type replying struct{}

func (replying) Receive(message any) {
	if p, ok := message.(*ping); ok {
		p.reply(nil)
	}
}

// chain is an actor of whose messages each sends the next one, while it is at work.
type chain struct {
	left int
}

func (c *chain) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*ping); ok && c.left > 0 {
		c.left--
		ctx.Send(ctx.Self(), &ping{})
	}
}

// TestMailboxThatIsNeverEmpty: it has room for what waits, not for all that ever did.
func TestMailboxThatIsNeverEmpty(t *testing.T) {
	system := NewSystem(zap.NewNop())
	box := &mailbox{}
	props := actor.PropsFromProducer(func() actor.Actor { return &chain{left: 10_000} },
		actor.WithMailbox(func() actor.Mailbox { return box }))
	system.actors.Root.Send(system.actors.Root.Spawn(props), &ping{})
	if n := cap(box.queue); n > 100 {
		t.Errorf("room for %d messages, of which one waits at a time", n)
	}
}
