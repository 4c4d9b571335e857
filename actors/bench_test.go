package actors

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/stream/schedule"
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
	k := newKit(b, Options{Without: without.Plans})
	pid := k.root.Spawn(onCaller(func() actor.Actor { return echo{} }))
	m := &allocRequest{}
	b.ReportAllocs()
	for b.Loop() {
		k.ask(pid, m)
	}
}

// BenchmarkHit is a request that the schedule has, through the pool, and
// its free.
func BenchmarkHit(b *testing.B) {
	k := newKit(b, Options{})
	sizes := tens(250)
	k.learn(sizes...)
	b.ReportAllocs()
	before := k.Stats().Hits
	n := uint64(0)
	for b.Loop() {
		if n%uint64(len(sizes)) == 0 {
			b.StopTimer()
			if err := k.Step(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		addr, err := k.Serve(0, 0, sizes[n%uint64(len(sizes))])
		if err != nil {
			b.Fatal(err)
		}
		if _, err := k.Free(addr); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if hits := k.Stats().Hits - before; hits < n*9/10 {
		b.Errorf("%d of %d requests hit", hits, n)
	}
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

// BenchmarkMiss is a block of the range that was freed before: asked for and freed.
func BenchmarkMiss(b *testing.B) {
	for _, others := range []int{0, 1000} { // live blocks beside it
		b.Run(fmt.Sprintf("live=%d", others), func(b *testing.B) {
			k := newKit(b, Options{Without: without.Plans})
			for i := range others {
				k.malloc(mem.Bytes(1+i%50) * 100 * mem.KiB)
			}
			k.play(mem.MiB)
			k.boundary()
			b.Run("device", func(b *testing.B) {
				b.ReportAllocs()
				for i := 1; b.Loop(); i++ {
					stepEvery(b, k, i)
					addr, err := k.Serve(0, 0, mem.MiB)
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

// stepOf is what one stream did in a step: blocks that nest in groups.
func stepOf(requests int) *stepEnded {
	key := arenaKey{stream: 0}
	m := &stepEnded{order: []mem.StreamID{0}, streams: map[uint16]mem.StreamID{1: 0},
		gaps: map[arenaKey][]engine.Range{key: {{Addr: mem.Addr(mem.GiB), Size: mem.GiB}}}}
	for at := 0; at < requests; at += 10 {
		for _, kind := range []schedule.EventKind{schedule.EventHit, schedule.EventFree} {
			for i := range 10 {
				addr := uint64(mem.GiB) + uint64(at+i)*uint64(mem.MiB)
				m.events = append(m.events, schedule.EventOf(kind, addr, uint64(200+(at+i)%97*16),
					1))
			}
		}
	}
	return m
}

// BenchmarkPlanner looks at steps that are served as they are planned: what the planner
// does beside a program most of the time.
func BenchmarkPlanner(b *testing.B) {
	for _, requests := range []int{50, 5000} {
		b.Run(fmt.Sprintf("events=%d", 2*requests), func(b *testing.B) {
			k := newKit(b, Options{})
			w := &planner{d: k.Device, known: map[arenaKey]*kinds{}, saver: saver{d: k.Device}}
			m := stepOf(requests)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.schedules = w.sent
				w.ended(m)
			}
			if w.sent > 1 {
				b.Errorf("%d plans were made", w.sent)
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond*float64(2*requests), "events/s")
		})
	}
}
