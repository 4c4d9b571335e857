package residency

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// step is a training step with so many micro-batches of so many layers' activations, and states.
func step(rng *rand.Rand, micro, layers int, states mem.Bytes, room float64, link Link) *Problem {
	const us = Nanos(1000)
	p := &Problem{Link: link, Handle: 32 * mem.MiB}
	now := Nanos(0)
	for range micro {
		first := len(p.Items)
		for range layers {
			now += us * Nanos(50+rng.IntN(100))
			p.Items = append(p.Items, Item{Size: 32*mem.MiB + mem.Bytes(rng.IntN(64))*mem.MiB,
				Idle: now})
			p.Load = append(p.Load, Load{now, 10*mem.GiB + mem.Bytes(rng.IntN(512))*mem.MiB})
		}
		for i := len(p.Items) - 1; i >= first; i-- {
			now += us * Nanos(100+rng.IntN(200))
			p.Items[i].Need = now
			p.Load = append(p.Load, Load{now, 10*mem.GiB + mem.Bytes(rng.IntN(512))*mem.MiB})
		}
	}
	p.Items = append(p.Items, Item{states, 0, now + us, true})
	g := newGrid(p)
	least, most := g.least(), mem.Bytes(0)
	for _, t := range g.total {
		most = max(most, t)
	}
	p.Limit = least + mem.Bytes(float64(most-least)*room)
	return p
}

// BenchmarkSolve plans steps that fit without waits, and steps on links that are too slow.
func BenchmarkSolve(b *testing.B) {
	fast, slow := Link{1e13, 1e13}, Link{55e9, 55e9}
	for _, c := range []struct {
		name          string
		micro, layers int
		states        mem.Bytes
		room          float64
		link          Link
	}{
		{"states", 1, 100, 10 * mem.GiB, 0.5, slow},
		{"deep", 1, 20000, 10 * mem.GiB, 0.5, fast},
		{"micro", 8, 2500, 10 * mem.GiB, 0.5, fast},
		{"tight", 8, 2500, 10 * mem.GiB, 0.1, fast},
		{"waits", 8, 2500, 10 * mem.GiB, 0.5, slow},
		{"waits/small", 2, 200, 10 * mem.GiB, 0.5, slow},
	} {
		p := step(rand.New(rand.NewPCG(1, 2)), c.micro, c.layers, c.states, c.room, c.link)
		b.Run(c.name, func(b *testing.B) {
			var plan Plan
			for b.Loop() {
				var err error
				if plan, err = Solve(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(newGrid(p).parts)), "parts")
			b.ReportMetric(float64(plan.Left)/float64(mem.GiB), "GiB")
			b.ReportMetric(float64(plan.Wait)/1e6, "wait-ms")
		})
	}
}
