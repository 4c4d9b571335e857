// Bench replays programs made at random through stalloc and expandable segments, and prints how
// their waste is distributed: `make programs`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/tests/programs"
)

// A figure is what one program came to under one allocator.
type figure struct {
	seed         int
	waste, share float64 // in percent
}

var allocators = []string{"stalloc", "expandable"}

func main() {
	n := flag.Int("n", 1000, "programs")
	from := flag.Int("from", 1, "the first one's seed")
	flag.Parse()
	figures, err := replayAll(*from, *n)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	fmt.Printf("%d programs, seeds from %d; in %%\n\n", *n, *from)
	fmt.Println("| | median | 90th of 100 | 99th of 100 | worst | its seed |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	for _, a := range allocators {
		row(a+", waste", figures[a], func(f figure) float64 { return f.waste })
		row(a+", driver", figures[a], func(f figure) float64 { return f.share })
	}
}

func row(name string, figures []figure, of func(figure) float64) {
	slices.SortFunc(figures, func(a, b figure) int {
		if of(a) != of(b) {
			if of(a) < of(b) {
				return -1
			}
			return 1
		}
		return a.seed - b.seed
	})
	at := func(share float64) float64 { return of(figures[int(share*float64(len(figures)-1))]) }
	fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f | %d |\n", name, at(0.5), at(0.9), at(0.99), at(1),
		figures[len(figures)-1].seed)
}

// replayAll returns the figures by allocator.
func replayAll(from, n int) (map[string][]figure, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		failure error
		figures = map[string][]figure{}
		seeds   = make(chan int)
	)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for seed := range seeds {
				tr := programs.Random(uint64(seed))
				for _, name := range allocators {
					a, err := replay.Lookup(name)
					var r replay.Result
					if err == nil {
						r, err = a.Replay(context.Background(), tr,
							replay.Config{Capacity: 160 * mem.GiB}, nil)
					}
					if err == nil && r.OOM {
						err = fmt.Errorf("%s is out of memory", name)
					}
					mu.Lock()
					if err != nil {
						failure = fmt.Errorf("seed %d: %w", seed, err)
					}
					figures[name] = append(figures[name], figure{seed, 100 * r.Fragmentation,
						100 * r.SteadyDriverTimeUS / float64(max(r.SteadyTimeUS, 1))})
					mu.Unlock()
				}
			}
		})
	}
	for seed := from; seed < from+n; seed++ {
		seeds <- seed
	}
	close(seeds)
	wg.Wait()
	return figures, failure
}
