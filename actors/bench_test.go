package actors

import (
	"fmt"
	"testing"

	"stalloc/internal/mem"
	"stalloc/internal/without"
)

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
