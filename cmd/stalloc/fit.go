package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stalloc/internal/fit"
	"stalloc/internal/mem"
	"stalloc/replay"
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
	offload    offloading
}

const fitHelp = `Fit finds the largest batch or sequence of a program that fits in a device, and
the largest that runs at full speed, under each allocator. It needs recordings
of a few steps at two sizes, better at three, from any GPU that can hold them.
--sizes batch=4,8 makes them: it runs the program with --batch 4 and --batch 8,
each for --steps steps under 'stalloc record'. Where {batch} stands in its
arguments, the size takes its place. The program must call stalloc.step() or
use an optimizer of PyTorch's.

If the smallest and the largest recording make the same requests in the same
order, fit builds runs of other sizes, in which each block's size follows a
line through the two, and replays them on the device. Otherwise it draws a line
through the figures of 'stalloc replay --smallest', which is less accurate: an
allocator's waste is not linear.

The range says how far a size may be off: the largest distance of a recording
from what is computed for its size, which grows with the square of the
extrapolation, plus the error of the search. With two sizes it is not known,
and fit says so.

Fit gives no answer that may be off by more than 10 % of the device (attention
that stores its matrix, with the sequence's length), or that is more than 16
times the largest recorded size.

--capacity is the memory that tensors can use: the device's, less what the CUDA
context and libraries take, usually 0.5 to 1.5 GiB. 'live tensors' is the upper
bound: no allocator fits a larger size.

With --offload it also says what live tensors need if the optimizer states are
on the host between two optimizer steps, and how much longer a step takes then.
States are recognised by their lifetimes. A recording does not have when memory
is used, so the time is an estimate from the host's times.`

func newFit() *cobra.Command {
	flags := fitFlags{multiple: 1, steps: 6, python: "python3", allocators: []string{"native",
		"expandable", "stalloc"}, capacity: size(80 * mem.GiB), format: asTable}
	cmd := &cobra.Command{
		Use:   "fit [flags] (--at SIZE=FILE... | --sizes NAME=SIZE,... program [arguments])",
		Short: "The largest batch or sequence that fits, from runs of smaller ones",
		Long:  fitHelp,
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
	f.StringVar(&flags.sizes, "sizes", "",
		"a `name=size,size`: run the program with --name at these sizes; two or more")
	f.IntVar(&flags.steps, "steps", flags.steps, "with --sizes: how many steps each run has")
	f.StringVar(&flags.python, "python", flags.python,
		"with --sizes: the `interpreter` that trains")
	f.StringArrayVar(&flags.at, "at", nil,
		"a `size=file`: the size, and its recording; two or more")
	f.Int64Var(&flags.multiple, "multiple", flags.multiple, "sizes come in multiples of this")
	f.Var(&flags.capacity, "capacity", "memory that tensors can use"+amounts)
	f.StringSliceVar(&flags.allocators, "allocator", flags.allocators, "allocators to compare")
	f.Lookup("allocator").DefValue = strings.Join(flags.allocators, ",")
	flags.offload.add(f)
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
		size, ok := parseSize(number)
		if !found || path == "" || !ok {
			return nil, nil, fmt.Errorf("--at %s: write a whole size of 1 or more, and its recording: --at 8=b8.csv.gz", text)
		}
		runs, sizes[size] = append(runs, sized{size, path}), true
	}
	slices.SortStableFunc(runs, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	switch {
	case len(runs) == 0:
		return nil, nil, errors.New("no recording is named: give two or more, as in --at 4=b4.csv.gz --at 8=b8.csv.gz, or a program and its --sizes")
	case len(sizes) < 2:
		return nil, nil, errors.New("one size alone does not tell what grows with it: give two or more, different ones, with --at or --sizes")
	}
	allocators, err = lookup(f.allocators)
	return runs, allocators, err
}

func parseSize(text string) (size int64, ok bool) {
	size, err := strconv.ParseInt(text, 10, 64)
	return size, err == nil && size >= 1 && size <= 1<<40
}

// needed is what the recordings of an allocator need, by one figure, or why that cannot be told.
type needed struct {
	points  []fit.Point
	along   func(size float64) float64 // of runs that are made up; nil: a line through the points
	trouble error
}

func (n *needed) add(size int64, memory, tolerance mem.Bytes) {
	n.points = append(n.points, fit.Point{Size: float64(size), Memory: float64(memory),
		Tolerance: float64(tolerance)})
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
	growth, byLine := trace.Grow(traces[0], traces[last], float64(runs[0].size),
		float64(runs[last].size))
	if byLine == nil {
		load.along = func(size float64) float64 { return float64(growth.At(size).PeakLoad()) }
	}
	line, live := f.result(liveTensors, figureFits, load)
	results := []fitResult{live}
	if why := results[0].CannotTell; why != "" {
		if byLine != nil {
			why += fmt.Sprintf("; if %s and %s are of two programs (%v), record one at both sizes",
				paths[0], paths[last], byLine)
		}
		s.fail(fmt.Errorf("these recordings do not tell how %s grow: %s", liveTensors, why))
		return s.finishAll(nil)
	}
	results = append(results, f.offload.results(f, runs, traces, growth)...)
	for i, a := range allocators {
		s.progress.startAt(len(runs) + i)
		var fits, speed fitResult
		if byLine == nil {
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
func (f *fitFlags) line(s *session, a replay.Allocator, runs []sized, traces []*trace.Trace) (fits,
	speed fitResult, err error) {
	var fitting, fast needed
	for i, tr := range traces {
		if err := measureSize(s, a, tr, runs[i].size, &fitting, &fast); err != nil {
			return fits, speed, fmt.Errorf("%s: %w", tr.Name, err)
		}
	}
	_, fits = f.result(a.Name, figureFits, &fitting)
	_, speed = f.result(a.Name, figureSpeed, &fast)
	return fits, speed, nil
}

func (f *fitFlags) blank(allocator, figure string) fitResult {
	return fitResult{versioned: formatVersion, Allocator: allocator, Figure: figure,
		Method: methodLine, Capacity: mem.Bytes(f.capacity)}
}

// result tells a figure of an allocator from what its recordings need, and by which line.
func (f *fitFlags) result(allocator, figure string, n *needed) (line fit.Line, r fitResult) {
	r = f.blank(allocator, figure)
	largest, err := fit.Range{}, n.trouble
	switch {
	case err != nil:
	case n.along != nil:
		r.Method = methodReplay
		line, err = fit.Along(n.points, n.along)
	default:
		line, err = fit.Through(n.points)
	}
	if err == nil {
		largest, err = line.Largest(float64(f.capacity), f.multiple)
	}
	if err != nil {
		r.CannotTell = err.Error()
		return line, r
	}
	r.Largest, r.Low, r.High = largest.Best, largest.Low, largest.High
	fixed, each := line.Tangent(float64(r.Largest))
	r.Fixed, r.Each, r.Checked = mem.Bytes(fixed), mem.Bytes(each), line.Checked
	r.Off = mem.Bytes(line.Error(float64(r.Largest)))
	return line, r
}
