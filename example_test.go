package stalloc_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"stalloc"
	"stalloc/cuda/sim"
)

// A loop that does the same in every step. The first steps are watched; once a step has come
// again, request for request, a plan serves those that follow.
func Example() {
	gpu, err := stalloc.Open(stalloc.Options{Simulated: 8 * stalloc.GiB,
		Planning: stalloc.PlanAtStep})
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()

	const stream = 0
	step := func() error {
		var blocks []stalloc.Addr
		for layer := range 24 {
			x, err := gpu.Malloc(stream, stalloc.Bytes(8+layer)*stalloc.MiB)
			if err != nil {
				return err
			}
			blocks = append(blocks, x)
		}
		for _, x := range blocks {
			if err := gpu.Free(x); err != nil {
				return err
			}
		}
		return gpu.Step()
	}
	var before stalloc.Stats
	for range 10 {
		before = gpu.Stats()
		if err := step(); err != nil {
			log.Fatal(err)
		}
	}
	s := gpu.Stats()
	fmt.Printf("the last step: %d requests, %d hits, %d misses, %d driver calls\n",
		s.Requests-before.Requests,
		s.Hits-before.Hits, s.Misses-before.Misses, s.DriverCalls-before.DriverCalls)
	fmt.Printf("the whole run: %v at the peak, %v reserved\n", s.PeakAllocated, s.PeakReserved)
	// Output:
	// the last step: 24 requests, 24 hits, 0 misses, 0 driver calls
	// the whole run: 468.00 MiB at the peak, 468.00 MiB reserved
}

// Work on a second stream reads a block of the first: it is recorded before it is
// freed, so that its memory is not given away under that work.
func ExampleAllocator_Record() {
	device := sim.New(sim.Config{Manual: true}) // work is done when the example says so
	gpu, err := stalloc.Open(stalloc.Options{Device: device})
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()

	const compute, copies = stalloc.Stream(1), stalloc.Stream(2)
	x, err := gpu.Malloc(compute, 32*stalloc.MiB)
	if err != nil {
		log.Fatal(err)
	}
	// Work that fills x is launched on compute, work that reads it on copies.
	if err := errors.Join(gpu.Record(x, copies), gpu.Free(x)); err != nil {
		log.Fatal(err)
	}
	s := gpu.Stats()
	fmt.Println(s.Allocated, "allocated,", s.Active, "active")
	device.Finish(copies)
	s = gpu.Stats()
	fmt.Println(s.Allocated, "allocated,", s.Active, "active")
	// Output:
	// 0 B allocated, 32.00 MiB active
	// 0 B allocated, 0 B active
}

// Every error can be told from the others.
func ExampleAllocator_Free() {
	gpu, err := stalloc.Open(stalloc.Options{Simulated: stalloc.GiB})
	if err != nil {
		log.Fatal(err)
	}
	x, err := gpu.Malloc(0, stalloc.MiB)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(gpu.Free(x))
	fmt.Println(errors.Is(gpu.Free(x), stalloc.ErrUnknown))
	_, err = gpu.Malloc(0, 2*stalloc.GiB)
	fmt.Println(errors.Is(err, stalloc.ErrOutOfMemory))
	fmt.Println(gpu.Close())
	fmt.Println(gpu.Free(x))
	// Output:
	// <nil>
	// true
	// true
	// <nil>
	// the allocator is closed
}

// The plan of one run spares the next to see a step come again: it plans after its first.
func ExampleAllocator_Save() {
	folder, err := os.MkdirTemp("", "plans")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "loop.plan")

	run := func(steps int) {
		gpu, err := stalloc.Open(stalloc.Options{Simulated: stalloc.GiB,
			Planning: stalloc.PlanAtStep, PlanFile: path})
		if err != nil {
			log.Fatal(err)
		}
		defer gpu.Close()
		for range steps {
			x, err := gpu.Malloc(0, 10*stalloc.MiB)
			if err != nil {
				log.Fatal(err)
			}
			if err := errors.Join(gpu.Free(x), gpu.Step()); err != nil {
				log.Fatal(err)
			}
		}
		s := gpu.Stats()
		fmt.Printf("%d requests, %d served from a plan\n", s.Requests, s.Hits)
		if err := gpu.Save(path); err != nil {
			log.Fatal(err)
		}
	}
	run(10)
	run(10)
	// Output:
	// 10 requests, 8 served from a plan
	// 10 requests, 9 served from a plan
}
