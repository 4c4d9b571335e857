package actors

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// echo answers every question.
type echo struct{}

func (echo) Receive(ctx actor.Context) {
	if q, ok := ctx.Message().(question); ok {
		q.slot().reply(nil)
	}
}

// BenchmarkBareActor is what an actor costs that does nothing: a question to one on
// the caller's thread, and its answer.
func BenchmarkBareActor(b *testing.B) {
	k := newKit(b, Options{NoPlan: true})
	pid := k.root.Spawn(onCaller(func() actor.Actor { return echo{} }))
	m := &serveRequest{}
	b.ReportAllocs()
	for b.Loop() {
		k.ask(pid, m)
	}
}

// BenchmarkServe is a request that the tape has and C did not find: through the
// stream actor.
func BenchmarkServe(b *testing.B) {
	const slots = 1000
	k := newKit(b, Options{})
	k.learn(tens(slots)[:slots/4]...) // all live at once
	port := k.lane().port
	sizes := tens(slots / 4)
	live := make([]mem.Addr, 0, len(sizes))
	next := func() {
		for _, addr := range live {
			k.release(addr)
		}
		live = live[:0]
		if err := k.Step(); err != nil {
			b.Fatal(err)
		}
	}
	next()
	b.ReportAllocs()
	for b.Loop() {
		if len(live) == len(sizes) {
			b.StopTimer()
			next()
			b.StartTimer()
		}
		addr, hit, err := k.Serve(port, sizes[len(live)])
		if !hit {
			b.Fatalf("request %d missed: %v", len(live), err)
		}
		live = append(live, addr)
	}
	k.release(live...)
}

// stepEvery ends a step after a thousand requests: what a step has seen is kept until
// then.
func stepEvery(b *testing.B, k *kit, i int) {
	if i%1000 == 0 {
		if err := k.Step(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMiss is a block of the pool that was freed before: asked for and freed.
func BenchmarkMiss(b *testing.B) {
	for _, others := range []int{0, 1000} { // live blocks beside it
		b.Run(fmt.Sprintf("live=%d", others), func(b *testing.B) {
			k := newKit(b, Options{NoPlan: true})
			for i := range others {
				k.malloc(mem.Bytes(1+i%50) * 100 * mem.KiB)
			}
			k.play(mem.MiB)
			k.boundary()
			b.Run("device", func(b *testing.B) {
				b.ReportAllocs()
				for i := 1; b.Loop(); i++ {
					stepEvery(b, k, i)
					addr, err := k.Alloc(0, 0, mem.MiB)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := k.Free(addr); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("local", func(b *testing.B) {
				b.ReportAllocs()
				for i := 1; b.Loop(); i++ {
					stepEvery(b, k, i)
					addr, err := k.Malloc(0, mem.MiB)
					if err != nil {
						b.Fatal(err)
					}
					if err := k.Release(addr); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// stepOf is what one stream observed in a step: blocks that nest in groups.
func stepOf(requests int) observed {
	o := observed{}
	for at := 0; at < requests; at += 10 {
		for i := range 10 {
			o.events = append(o.events, Event{Addr: mem.Addr(mem.GiB) + mem.Addr(at+i)*mem.Addr(mem.MiB), Size: mem.Bytes(1+(at+i)%97) * mem.KiB * 8, Kind: EventHit})
		}
		for i := range 10 {
			o.events = append(o.events, Event{Addr: mem.Addr(mem.GiB) + mem.Addr(at+i)*mem.Addr(mem.MiB), Kind: EventFree})
		}
	}
	return o
}

// counted tells when its planner has worked a message off.
type counted struct {
	*planner
	done chan struct{}
}

func (c counted) Receive(ctx actor.Context) {
	c.planner.Receive(ctx)
	if _, ok := ctx.Message().(*stepEnded); ok {
		c.done <- struct{}{}
	}
}

// BenchmarkInbox is the planner's inbox while a plan is in the making: steps that
// repeat arrive and are taken in.
func BenchmarkInbox(b *testing.B) {
	for _, requests := range []int{50, 5000} {
		b.Run(fmt.Sprintf("events=%d", 2*requests), func(b *testing.B) {
			d, err := Open(device.NewOwner(sim.New(sim.Config{})), NewGoHost(), Options{NoPlan: true})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			p := newPlanner(d, nil)
			p.making = true
			const ahead = 8 // messages that may wait
			c := counted{p, make(chan struct{}, ahead)}
			pid := d.root.Spawn(beside(func() actor.Actor { return c }))
			m := &stepEnded{steps: []observed{stepOf(requests)}}
			b.ReportAllocs()
			waiting := 0
			for b.Loop() {
				d.root.Send(pid, m)
				if waiting++; waiting == ahead {
					<-c.done
					waiting--
				}
			}
			for ; waiting > 0; waiting-- {
				<-c.done
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond, "messages/s")
			b.ReportMetric(perSecond*float64(2*requests), "events/s")
		})
	}
}
