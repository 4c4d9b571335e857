package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stalloc/actors/replay"
	"stalloc/internal/fit"
	"stalloc/internal/mem"
	"stalloc/trace"
)

type fitFlags struct {
	at         []string
	sizes      string
	steps      int
	python     string
	multiple   int64
	allocators []string
	capacity   size
	format     format
}

func newFit() *cobra.Command {
	flags := fitFlags{multiple: 1, steps: 6, python: "python3", allocators: []string{"native", "expandable", "stalloc"}, capacity: size(80 * mem.GiB), format: asTable}
	cmd := &cobra.Command{
		Use:   "fit [flags] (--at SIZE=RECORDING --at SIZE=RECORDING... | --sizes NAME=SIZE,SIZE program [arguments])",
		Short: "The largest batch or sequence that fits, from runs of smaller ones",
		Long: `Fit tells the largest size of a program, its batch or its sequence, that fits in a
device, and the largest that runs at full speed, under each allocator. It wants
recordings of a few steps at two sizes, better at three, on any GPU that holds them.
--sizes batch=4,8 makes them: it runs the program with --batch 4 and --batch 8, each for
--steps steps under 'stalloc record'. Where {batch} stands in its arguments, the size
takes its place. The program has to mark its steps or use an optimizer of PyTorch's.

Memory is taken to be a line in the size: a part that is fixed (weights, gradients,
the optimizer's state) and so much for each unit. Where the smallest and the largest
recording make the same requests in the same order, runs of other sizes are made up
from them, each block on a line of its own, and replayed on the device. Elsewhere the
line is one through the two figures of 'stalloc replay --smallest', which is less sure:
the waste of an allocator is no line.

The range after a size is by how much it may be off: the largest distance of a
recording from the line, which grows with the square of how far it is extrapolated,
and what a search is off by. Two sizes cannot tell whether it is a line; that is said.

What grows otherwise, such as attention that keeps its matrix with the sequence, or a
program whose recordings hold other steps, is refused where it is off by more than
10 %, and so is what is farther than 16 times the largest recorded size.

--capacity is what tensors can have: a device less what the CUDA context and libraries
take, mostly 0.5 to 1.5 GiB. 'live tensors' is what no allocator can exceed.`,
		Example: `  stalloc fit --sizes batch=4,8,12 train.py --lr 3e-4
  stalloc fit --at 4=b4.csv.gz --at 8=b8.csv.gz --at 12=b12.csv.gz
  stalloc fit --multiple 64 --capacity 79GiB --at 512=s512.csv.gz --at 1024=s1024.csv.gz`,
		Args: flags.programArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.sizes != "" {
				done, err := flags.record(cmd, args)
				if err != nil {
					return err
				}
				defer done()
			}
			return flags.run(cmd)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what stands after the program is its own
	f.StringVar(&flags.sizes, "sizes", "", "a `name=size,size`: run the program with --name at these sizes; two or more")
	f.IntVar(&flags.steps, "steps", flags.steps, "with --sizes: of each run")
	f.StringVar(&flags.python, "python", flags.python, "with --sizes: the `interpreter` that trains")
	f.StringArrayVar(&flags.at, "at", nil, "a `size=file`: the size, and its recording; two or more")
	f.Int64Var(&flags.multiple, "multiple", flags.multiple, "sizes come in multiples of this")
	f.Var(&flags.capacity, "capacity", "memory that tensors can have")
	f.StringSliceVar(&flags.allocators, "allocator", flags.allocators, "allocators to tell of")
	f.Lookup("allocator").DefValue = strings.Join(flags.allocators, ",")
	addFormat(f, &flags.format)
	complete(cmd, map[string][]string{"allocator": replay.Names(), "format": formats})
	return cmd
}

// sized is a recording and its size.
type sized struct {
	size int64
	path string
}

// check returns the recordings, the smallest size first.
func (f *fitFlags) check() (runs []sized, allocators []replay.Allocator, err error) {
	sizes := make(map[int64]bool)
	for _, text := range f.at {
		number, path, found := strings.Cut(text, "=")
		size, err := strconv.ParseInt(number, 10, 64)
		if !found || path == "" || err != nil || size < 1 || size > 1<<40 {
			return nil, nil, fmt.Errorf("--at %s: write a whole size of 1 or more, and its recording: --at 8=b8.csv.gz", text)
		}
		runs, sizes[size] = append(runs, sized{size, path}), true
	}
	slices.SortStableFunc(runs, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	for _, name := range f.allocators {
		a, err := replay.Lookup(name)
		if err != nil {
			return nil, nil, err
		}
		allocators = append(allocators, a)
	}
	switch {
	case len(sizes) < 2:
		return nil, nil, errors.New("one size alone does not tell what grows with it: give two or more, different ones, with --at or --sizes")
	case f.multiple < 1:
		return nil, nil, fmt.Errorf("--multiple %d: give a number of at least 1", f.multiple)
	case len(allocators) == 0:
		return nil, nil, fmt.Errorf("--allocator names none: choose from %s", strings.Join(replay.Names(), ", "))
	}
	return runs, allocators, nil
}

// needed is what the recordings of an allocator need, by one figure, or why that cannot be told.
type needed struct {
	points  []fit.Point
	trouble error
}

func (n *needed) add(size int64, memory, tolerance mem.Bytes) {
	n.points = append(n.points, fit.Point{Size: float64(size), Memory: float64(memory), Tolerance: float64(tolerance)})
}

func (f *fitFlags) run(cmd *cobra.Command) error {
	runs, allocators, err := f.check()
	if err != nil {
		return err
	}
	s := newSession(cmd, f.format, len(runs)+len(allocators))
	paths, load := make([]string, len(runs)), &needed{}
	for i, r := range runs {
		paths[i] = r.path
	}
	var traces []*trace.Trace
	s.eachTrace(paths, 1, func(_ string, tr *trace.Trace) { traces = append(traces, tr) })
	if s.failed || s.ctx.Err() != nil {
		return s.finishAll(nil)
	}
	for i, tr := range traces {
		load.add(runs[i].size, tr.PeakLoad(), 0)
	}
	last := len(traces) - 1
	if err := oneProgram(runs[0], runs[last], traces[0], traces[last]); err != nil {
		s.fail(err)
		return s.finishAll(nil)
	}
	results := []fitResult{f.result(liveTensors, figureFits, load)}
	if why := results[0].CannotTell; why != "" {
		s.fail(fmt.Errorf("these recordings do not tell how %s grow: %s", liveTensors, why))
		return s.finishAll(nil)
	}
	growth, byLine := trace.Grow(traces[0], traces[last], float64(runs[0].size), float64(runs[last].size))
	for i, a := range allocators {
		s.progress.startAt(len(runs) + i)
		var fits, speed fitResult
		if byLine == nil {
			line, _ := fit.Through(load.points) // it was told from
			m := &madeUp{s: s, f: f, growth: growth, load: line, most: results[0].High}
			fits, speed, err = m.results(a)
		} else {
			fits, speed, err = f.line(s, a, runs, traces)
		}
		if err != nil && s.ctx.Err() == nil {
			s.fail(fmt.Errorf("allocator %s: %w", a.Name, err))
		}
		if s.failed || s.ctx.Err() != nil {
			return s.finishAll(nil)
		}
		results = append(results, fits, speed)
	}
	for _, r := range results {
		s.emit(r)
	}
	return s.finish(f.table(results, byLine))
}

// line tells the two figures of an allocator from those of the recordings.
func (f *fitFlags) line(s *session, a replay.Allocator, runs []sized, traces []*trace.Trace) (fits, speed fitResult, err error) {
	var fitting, fast needed
	for i, tr := range traces {
		if err := measureSize(s, a, tr, runs[i].size, &fitting, &fast); err != nil {
			return fits, speed, fmt.Errorf("%s: %w", tr.Name, err)
		}
	}
	return f.result(a.Name, figureFits, &fitting), f.result(a.Name, figureSpeed, &fast), nil
}

// measureSize finds the two figures of a recording under an allocator.
func measureSize(s *session, a replay.Allocator, tr *trace.Trace, size int64, fits, speed *needed) error {
	load := tr.PeakLoad()
	c := replay.Config{Capacity: 4*load + mem.GiB}
	first, err := a.Replay(s.ctx, tr, c, s.progress.begin(tr.Name+", "+a.Name))
	if err != nil {
		return err
	}
	found, err := a.Smallest(s.ctx, tr, c, first.PeakReserved, func(capacity mem.Bytes) func(done, total int) {
		return s.progress.begin(fmt.Sprintf("%s, %s on %v", tr.Name, a.Name, capacity))
	})
	if err != nil {
		return err
	}
	tolerance := max(load/1000, mem.HandleSize)
	fits.add(size, found.FitsIn, tolerance)
	switch speed.add(size, found.FullSpeedIn, tolerance); {
	case found.FullSpeedIn > 0:
	case first.SteadyTimeUS == 0:
		speed.trouble = errNotSteady
	default:
		speed.trouble = fmt.Errorf("at size %d it is at full speed in no memory", size)
	}
	return nil
}

func (f *fitFlags) blank(allocator, figure string) fitResult {
	return fitResult{versioned: formatVersion, Allocator: allocator, Figure: figure, Method: methodLine, Capacity: mem.Bytes(f.capacity)}
}

// result tells a figure of an allocator from what its recordings need.
func (f *fitFlags) result(allocator, figure string, n *needed) fitResult {
	r := f.blank(allocator, figure)
	line, largest, err := fit.Line{}, fit.Range{}, n.trouble
	if err == nil {
		line, err = fit.Through(n.points)
	}
	if err == nil {
		largest, err = line.Largest(float64(f.capacity), f.multiple)
	}
	if err != nil {
		r.CannotTell = err.Error()
		return r
	}
	r.Largest, r.Low, r.High = largest.Best, largest.Low, largest.High
	r.Fixed, r.Each, r.Checked = mem.Bytes(line.Fixed), mem.Bytes(line.Each), line.Checked
	r.Off = mem.Bytes(line.Error(float64(r.Largest)))
	return r
}
