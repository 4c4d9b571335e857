package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"stalloc/actors/replay"
	"stalloc/internal/mem"
	"stalloc/trace"
)

type replayFlags struct {
	allocators []string
	warm       bool
	format     format
	wide       bool
	show       string
	noPlan     bool
	capacity   size
	fragLimit  size
	noise      float64
	seed       uint64
	smallest   bool
}

func newReplay() *cobra.Command {
	flags := replayFlags{
		allocators: replay.Names(),
		capacity:   size(80 * mem.GiB),
		fragLimit:  size(replay.DefaultFragLimit),
		seed:       1,
		format:     asTable,
	}
	cmd := &cobra.Command{
		Use:   "replay [flags] TRACE...",
		Short: "Replay recorded runs through allocators on a simulated device",
		Long: `Replay drives each recorded run through each allocator, on a simulated device
that keeps the driver's rules and counts its calls, and prints what it cost: a
recording a row, the allocators across, the best marked. --show chooses another
figure, --wide shows all of them, and --format prints for programs; the keys of
JSON and CSV are explained by 'stalloc help keys'.

Peak load is the largest sum of live blocks: no allocator can reserve less.
Waste is 1 - peak load / peak reserved. The steady part of a run begins
with the first step under a plan, without a plan behind the second step, but in
any case behind the step in which the load comes within 1 % of its peak: until
then memory must be made. Driver time is modelled from measured costs, and steady
time is its share of what the steady part took when it was recorded.

Hits are the requests that a plan served, as a share of all that the run made.
With --warm, allocators that plan are started twice, and the second start, which
finds the plans that the first has left, is shown; the others leave nothing and
run cold.

With --noise, that share of the requests in the steps behind the first is inserted
or left out at random, each at half the rate: 0.01 disturbs one in a hundred.

With --smallest, the run is repeated on other devices, some ten times, to find the
smallest that it does not fill: to 2 MiB, and whatever --capacity says. The next
smaller one is filled; still smaller ones may do again, by chance.`,
		Example: `  stalloc replay tests/traces/llama_naive.csv.gz
  stalloc replay --allocator native,stalloc --warm tests/traces/*.csv.gz
  stalloc replay --noise 0.01 --seed 7 tests/traces/llama_naive.csv.gz
  stalloc replay --show driver --format md tests/traces/llama_*.csv.gz
  stalloc replay --allocator native,stalloc --smallest tests/traces/llama_lora.csv.gz
  stalloc replay --capacity 40GiB --json snapshot.pickle`,
		Args:              atLeastOneTrace,
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return flags.run(cmd, paths)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&flags.allocators, "allocator", flags.allocators, "allocators to replay through, in this order")
	f.BoolVar(&flags.warm, "warm", false, "show the second of two starts, with what the first has left")
	f.BoolVar(&flags.noPlan, "no-plan", false, "stalloc: serve everything from the range")
	f.Float64Var(&flags.noise, "noise", 0, "share of the requests to insert or leave out at random, from 0 to 1")
	f.Uint64Var(&flags.seed, "seed", flags.seed, "of the noise")
	f.BoolVar(&flags.smallest, "smallest", false, "find the smallest device that the run does not fill")
	f.BoolVar(&flags.wide, "wide", false, "a row for each allocator, with all figures; wider than a terminal mostly is")
	f.StringVar(&flags.show, "show", "", "the `figure` to compare: waste, reserved, driver, hits or smallest (default waste)")
	addFormat(f, &flags.format)
	f.Var(&flags.capacity, "capacity", "memory of the simulated device")
	f.Var(&flags.fragLimit, "frag-limit", "gmlake: requests below this size are not stitched")
	f.Lookup("allocator").DefValue = strings.Join(flags.allocators, ",")
	complete(cmd, map[string][]string{"allocator": replay.Names(), "format": formats, "show": measureNames()})
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, paths []string) error {
	allocators, err := f.check()
	if err != nil {
		return err
	}
	config := replay.Config{Capacity: mem.Bytes(f.capacity), FragLimit: mem.Bytes(f.fragLimit), Warm: f.warm, NoPlan: f.noPlan}
	s := newSession(cmd, f.format, len(paths)*len(allocators))
	v := f.view(s)
	s.eachTrace(paths, len(allocators), func(path string, tr *trace.Trace) {
		if f.noise > 0 {
			tr = tr.Disturb(f.seed, f.noise)
		}
		for i, a := range allocators {
			if s.ctx.Err() != nil {
				return
			}
			r, err := a.Replay(s.ctx, tr, config, s.progress.begin(tr.Name+", "+a.Name))
			if err != nil {
				s.fail(fmt.Errorf("%s, allocator %s: %w", path, a.Name, err))
				continue
			}
			if r.OOM {
				s.fail(fmt.Errorf("%s, allocator %s: %w at request %d with %v of live blocks; give the device more than %v with --capacity",
					path, a.Name, errFull, r.Requests, r.PeakLoad, mem.Bytes(f.capacity)))
			}
			if f.noise > 0 {
				r.Noise, r.Seed = f.noise, f.seed
			}
			if f.smallest {
				if r.Smallest, err = f.findSmallest(s, a, tr, config, r.PeakReserved); err != nil {
					s.fail(fmt.Errorf("%s, allocator %s, the smallest device: %w", path, a.Name, err))
				}
			}
			s.emit(r)
			v.add(r)
			s.progress.advance(i + 1)
		}
	})
	return s.finish(v.table())
}

// check returns the allocators that are named, or what is wrong with the flags.
func (f *replayFlags) check() ([]replay.Allocator, error) {
	if len(f.allocators) == 0 {
		return nil, fmt.Errorf("--allocator names none: choose from %s", strings.Join(replay.Names(), ", "))
	}
	var allocators []replay.Allocator
	for _, name := range f.allocators {
		a, err := replay.Lookup(name)
		if err != nil {
			return nil, err
		}
		allocators = append(allocators, a)
	}
	if !(f.noise >= 0 && f.noise <= 1) {
		return nil, fmt.Errorf("--noise %v is no share: give a number from 0 to 1, such as 0.01 for one request in a hundred", f.noise)
	}
	if f.show == "" {
		f.show = measures[0].name
		if f.smallest {
			f.show = "smallest"
		}
	}
	if f.show == "smallest" && !f.smallest {
		return nil, errors.New("--show smallest needs --smallest, which finds it in ten replays or more")
	}
	_, err := findMeasure(f.show)
	return allocators, err
}

// view is how results are laid out for people.
type view interface {
	add(replay.Result)
	table() (table.Writer, string)
}

func (f *replayFlags) view(s *session) view {
	if f.wide {
		return &wideTable{smallest: f.smallest}
	}
	m, _ := findMeasure(f.show) // checked
	return &comparison{measure: m, markdown: f.format == asMD, colours: coloured(s.out)}
}

var errFull = errors.New("the device is full")

func (f *replayFlags) findSmallest(s *session, a replay.Allocator, tr *trace.Trace, c replay.Config, reserved mem.Bytes) (mem.Bytes, error) {
	return a.Smallest(s.ctx, tr, c, reserved, func(capacity mem.Bytes) func(done, total int) {
		return s.progress.begin(fmt.Sprintf("%s, %s on %v", tr.Name, a.Name, capacity))
	})
}

// wideTable has a row for every result, with all figures.
type wideTable struct {
	smallest bool
	t        table.Writer
	trace    string
}

func (w *wideTable) add(r replay.Result) {
	if w.t == nil {
		header := []any{"recording", "allocator", "mode", "requests", "hits", "peak load", "peak reserved", "waste", "calls", "steady", "driver time", "steady time"}
		if w.smallest {
			header = append(header, "smallest")
		}
		w.t = newTable(3, header...)
	} else if w.trace != r.Trace {
		w.t.AppendSeparator()
	}
	w.trace = r.Trace
	w.t.AppendRow(replayRow(r))
}

func (w *wideTable) table() (table.Writer, string) { return w.t, "" }

func replayRow(r replay.Result) table.Row {
	hits := "-"
	if r.Hits+r.Misses > 0 {
		hits = fmt.Sprintf("%.2f %%", 100*hitShare(r))
	}
	steady := "-"
	if r.SteadyTimeUS > 0 {
		steady = fmt.Sprintf("%.2f %%", 100*r.SteadyDriverTimeUS/float64(r.SteadyTimeUS))
	}
	reserved := r.PeakReserved.String()
	if r.OOM {
		reserved = "full at " + reserved
	}
	row := table.Row{
		r.Trace, r.Allocator, r.Mode, r.Requests, hits, r.PeakLoad, reserved,
		fmt.Sprintf("%.2f %%", 100*r.Fragmentation), r.DriverCalls, r.SteadyDriverCalls,
		fmt.Sprintf("%.1f ms", r.DriverTimeUS/1e3), steady,
	}
	if r.Smallest > 0 {
		row = append(row, r.Smallest)
	}
	return row
}
