package actors

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
	answer
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

func (c *counter) Receive(ctx actor.Context) {
	p, ok := ctx.Message().(*ping)
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
		system := newSystem(zap.NewNop())
		c := &counter{t: t, last: map[int]int{}, fails: fails}
		pid := system.Root.Spawn(onCaller(func() actor.Actor { return c }))
		const senders, messages = 8, 3000
		var all sync.WaitGroup
		for from := range senders {
			all.Go(func() {
				for n := 1; n <= messages; n++ {
					p := &ping{from: from, number: n}
					system.Root.Send(pid, p)
					p.wait()
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
	system := newSystem(zap.NewNop())
	defer system.Shutdown()
	c := &counter{t: t, last: map[int]int{}}
	pid := system.Root.Spawn(onCaller(func() actor.Actor { return c }))
	p, n := &ping{}, 0
	if allocations := testing.AllocsPerRun(100, func() {
		p.reset()
		n++
		p.number = n
		system.Root.Send(pid, p)
		p.wait()
	}); allocations != 0 {
		t.Errorf("a message costs %v allocations", allocations)
	}
}

func BenchmarkMailbox(b *testing.B) {
	own := func(p actor.Producer) *actor.Props { return onCaller(p) }
	for name, props := range map[string]func(actor.Producer) *actor.Props{
		"ours": own,
		"protoactor": func(p actor.Producer) *actor.Props {
			return beside(p).Configure(actor.WithDispatcher(actor.NewSynchronizedDispatcher(1 << 20)))
		},
	} {
		b.Run(name, func(b *testing.B) {
			system := newSystem(zap.NewNop())
			defer system.Shutdown()
			answering := func(ctx actor.Context) {
				if p, ok := ctx.Message().(*ping); ok {
					p.reply(nil)
				}
			}
			pid := system.Root.Spawn(props(func() actor.Actor { return actor.ReceiveFunc(answering) }))
			p := &ping{}
			b.ReportAllocs()
			for b.Loop() {
				p.reset()
				system.Root.Send(pid, p)
				p.wait()
			}
		})
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
	system := newSystem(zap.NewNop())
	box := &mailbox{}
	props := actor.PropsFromProducer(func() actor.Actor { return &chain{left: 10_000} },
		actor.WithMailbox(func() actor.Mailbox { return box }))
	system.Root.Send(system.Root.Spawn(props), &ping{})
	if n := cap(box.queue); n > 100 {
		t.Errorf("room for %d messages, of which one waits at a time", n)
	}
}
