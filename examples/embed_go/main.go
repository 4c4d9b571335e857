//go:build cgo

// Command embed_go shows how a Go program embeds stalloc: it replays a recorded
// training run through the API, from one thread or from several at once, and checks
// that no block's bytes are ever touched by another.
//
// The first thread follows the recording on the default stream; every further
// thread follows it on a stream of its own, with smaller blocks. All of them meet
// at each step boundary. Behind the recording its last step is repeated, as a
// training loop does, so that plans come to serve. Every block is filled with a
// pattern of its own when it is handed out and compared with it before it is freed,
// in every fiftieth of the repeated steps; now and then one is lent to the next stream.
// The sizes of the recording are divided, so that it fits into the memory of a
// simulated driver, which is this machine's own:
//
//	make build                                    # builds that driver, too
//	go run ./examples/embed_go                    # some seconds
//	go run ./examples/embed_go -driver libcuda.so.1 -scale 1   # on a GPU
//
// The exit status is 0 only if every byte was found as it was left.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"stalloc"
	"stalloc/cuda"
	"stalloc/cuda/nvml"
	"stalloc/trace"
)

type options struct {
	trace, driver string
	scale         int64
	threads       int
	repeats       int
	pause         time.Duration
	atStep        bool
	verbose       bool
}

func main() {
	var o options
	flag.StringVar(&o.trace, "trace", "tests/traces/llama_naive.csv.gz", "the recording to replay")
	flag.StringVar(&o.driver, "driver", "build/fakecuda/libcuda.so.1",
		"the CUDA driver library; libcuda.so.1 is the GPU's")
	flag.Int64Var(&o.scale, "scale", 64, "divide the recorded sizes by this")
	flag.IntVar(&o.threads, "threads", 1, "threads, each on a stream of its own")
	flag.IntVar(&o.repeats, "steps", 200, "repeat the last step so many times")
	flag.DurationVar(&o.pause, "pause", 10*time.Millisecond,
		"wait after each step, in place of the work a real one does")
	flag.BoolVar(&o.atStep, "at-step", false,
		"plan at the step boundaries instead of beside the program")
	flag.BoolVar(&o.verbose, "v", false, "log what the allocator does")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "embed_go: %s: expected flags only; name a recording with -trace\n",
			flag.Arg(0))
		os.Exit(2)
	}
	if o.scale < 1 || o.threads < 1 || o.repeats < 0 {
		fmt.Fprintln(os.Stderr,
			"embed_go: expected -scale and -threads of at least 1, and -steps of at least 0")
		flag.Usage()
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "embed_go:", err)
		os.Exit(1)
	}
}

// run opens the device, replays the recording on it and prints what came of it.
func run(o options) (err error) {
	recording, err := trace.ReadFile(o.trace)
	if err != nil {
		return err
	}
	driver, err := cuda.Open(o.driver)
	if err != nil {
		return fmt.Errorf("%w (the simulated driver is built by make build)", err)
	}
	gpu, err := driver.Device(0)
	if err != nil {
		return err
	}
	options := stalloc.Options{Device: gpu, Holders: nvml.Holders}
	if o.atStep {
		options.Planning = stalloc.PlanAtStep
	}
	if o.verbose {
		if options.Log, err = zap.NewDevelopment(); err != nil {
			return err
		}
	}
	allocator, err := stalloc.Open(options)
	if err != nil {
		return err
	}
	defer func() {
		if e := allocator.Close(); err == nil {
			err = e
		}
	}()
	r := &replay{memory: allocator, bytes: gpu, events: recording.Events, pause: o.pause,
		repeats: o.repeats}
	if err := r.addThreads(o.threads, o.scale, gpu.NewStream); err != nil {
		return err
	}
	fmt.Printf("%s on %s: %d threads, sizes divided by %d\n", recording.Name, allocator.Name(),
		o.threads, o.scale)
	start := time.Now()
	if err := r.run(); err != nil {
		return err
	}
	report(r, allocator.Stats(), time.Since(start))
	return allocator.Check()
}

func report(r *replay, s stalloc.Stats, took time.Duration) {
	var checked stalloc.Bytes
	var spent time.Duration
	for _, t := range r.threads {
		checked += t.checked
		spent += t.spent
	}
	fmt.Printf("requests  %d, in %d steps\n", s.Requests, s.Steps)
	fmt.Printf("plan      %d hits, %d misses, %d plans; %.1f %% of all requests\n", s.Hits,
		s.Misses, s.Plans, 100*float64(s.Hits)/float64(s.Requests))
	fmt.Printf("memory    %v live at the peak, %v reserved, %.1f %% fragmentation\n",
		s.PeakAllocated, s.PeakReserved, 100*s.Fragmentation())
	fmt.Printf("driver    %d calls, %v\n", s.DriverCalls, s.DriverTime.Round(time.Microsecond))
	fmt.Printf("time      %v, of it %v in the allocator\n", took.Round(time.Millisecond),
		spent.Round(time.Microsecond))
	fmt.Printf("checked   %v, every byte as it was left\n", checked)
}
