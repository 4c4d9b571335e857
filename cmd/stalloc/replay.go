package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/replay"
	"stalloc/trace"
)

// replayResult is what replay prints for programs.
type replayResult struct {
	versioned
	replay.Result
}

type replayFlags struct {
	allocators []string
	warm       bool
	format     format
	wide       bool
	show       string
	noPlan     bool
	off        []string // mechanisms
	without    without.Set
	capacity   size
	fragLimit  size
	noise      float64
	late       float64
	seed       uint64
	smallest   bool
	ignoring   bool // of streams
}

func newReplay() *cobra.Command {
	flags := replayFlags{
		allocators: []string{"native", "expandable", "gmlake", "stalloc"},
		capacity:   size(80 * mem.GiB),
		fragLimit:  size(replay.DefaultFragLimit),
		seed:       1,
		format:     asTable,
	}
	cmd := &cobra.Command{
		Use:   "replay [flags] TRACE...",
		Short: "Replay recorded runs through allocators on a simulated device",
		Long: `Replay runs the requests of each recording through each allocator, on a
simulated device that follows the driver's rules and counts its calls. It
prints a row for each recording and a column for each allocator, the best one
marked. --show chooses the figure, --wide prints all of them, --format prints
for programs: 'stalloc help keys' explains the keys of JSON and CSV.

Peak load is the largest sum of live blocks: no allocator can reserve less.
Waste is 1 - peak load / peak reserved. The steady part of a run begins, for
every allocator, after the step in which the load first comes within 1 % of its
peak, after the second step at the earliest: until then memory must be
allocated from the driver. Driver time is modelled from measured costs and
shown as a share of the steady part's time when it was recorded.

Hits are the requests that a plan served, as a share of all. With --warm,
allocators that plan are started twice and the second start is shown, which
knows the first one's steps; the others keep nothing between runs and start
cold. The allocator 'paper' is that of the STAlloc paper (arXiv 2507.16274): it
profiles three steps under the native one and starts again with a plan, so a
cold run has two starts, and needs what the larger takes.

--noise inserts or leaves out that share of the requests in the steps after the
first, at random, half each: 0.01 disturbs one in a hundred. --late frees that
share of the blocks in those steps later, by up to 1 % of the step.

--smallest repeats the run on other devices, ten to twenty times, and finds two
figures for each allocator, whatever --capacity says: the smallest device that
the run fits in, and the smallest on which it runs at full speed, where driver
calls take at most 1 % of the steady part and no request in it is retried
because the device was full. Both are exact to a thousandth of the peak load;
every larger device that was tried works, too.`,
		Example: `  stalloc replay tests/traces/llama_naive.csv.gz
  stalloc replay --allocator native,stalloc --warm tests/traces/*.csv.gz
  stalloc replay --noise 0.01 --seed 7 tests/traces/llama_naive.csv.gz
  stalloc replay --show driver --format md tests/traces/llama_*.csv.gz
  stalloc replay --allocator native,stalloc --smallest tests/traces/llama_lora.csv.gz
  stalloc replay --capacity 40GiB --json snapshot.pickle`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.lists() {
				return cobra.NoArgs(cmd, args)
			}
			return atLeastOneTrace(cmd, args)
		},
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if flags.lists() {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(without.Texts(), "\n"))
				return err
			}
			return flags.run(cmd, paths)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&flags.allocators, "allocator", flags.allocators,
		"allocators to replay through, in this order, among "+strings.Join(replay.Names(), ", "))
	f.BoolVar(&flags.warm, "warm", false,
		"show the second of two starts, which knows the first one's steps")
	f.BoolVar(&flags.noPlan, "no-plan", false, "plan no steps")
	f.StringSliceVar(&flags.off, "without", nil,
		"stalloc: `mechanisms` to switch off; 'list' explains them")
	f.Float64Var(&flags.noise, "noise", 0,
		"share of the requests to insert or leave out at random, from 0 to 1")
	f.Float64Var(&flags.late, "late", 0,
		"share of the blocks to free later, at random, from 0 to 1")
	f.Uint64Var(&flags.seed, "seed", flags.seed, "seed of --noise and --late")
	f.BoolVar(&flags.smallest, "smallest", false,
		"find the smallest devices that the run fits in, and runs at full speed in")
	f.BoolVar(&flags.wide, "wide", false,
		"a row for each allocator, with all figures; wider than most terminals")
	f.StringVar(&flags.show, "show", "",
		"the `figure` to compare: waste, reserved, driver, hits, fits or speed (default waste)")
	addFormat(f, &flags.format)
	f.Var(&flags.capacity, "capacity", "memory of the simulated device"+amounts)
	f.Var(&flags.fragLimit, "frag-limit", "gmlake: do not stitch requests below this size"+amounts)
	f.BoolVar(&flags.ignoring, "ignore-streams", false,
		"paper: as published, reuse memory at its free, though other streams may still use it")
	f.Lookup("allocator").DefValue = strings.Join(flags.allocators, ",")
	complete(cmd, map[string][]string{"allocator": replay.Names(), "format": formats,
		"show": measureNames()})
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, paths []string) error {
	allocators, err := f.check()
	if err != nil {
		return err
	}
	config := replay.Config{Capacity: mem.Bytes(f.capacity), FragLimit: mem.Bytes(f.fragLimit),
		Warm: f.warm, Without: f.without, IgnoreStreams: f.ignoring}
	s := newSession(cmd, f.format, len(paths)*len(allocators))
	v := f.view(s)
	s.eachTrace(paths, len(allocators), func(path string, tr *trace.Trace) {
		if f.noise > 0 {
			tr = tr.Disturb(f.seed, f.noise)
		}
		if f.late > 0 {
			tr = tr.Late(f.seed, f.late)
		}
		for i, a := range allocators {
			if s.ctx.Err() != nil {
				return
			}
			r, err := a.Replay(s.ctx, tr, config, s.progress.begin(tr.Name+", "+a.Name))
			if s.ctx.Err() != nil {
				return
			}
			if err != nil {
				s.fail(fmt.Errorf("%s, allocator %s: %w", path, a.Name, err))
				continue
			}
			if r.OOM {
				s.fail(fmt.Errorf("%s, allocator %s: the device is full at request %d, of %v, beside %v of live blocks; give the device more than %v with --capacity",
					path, a.Name, r.Requests, requested(tr,
						r.Requests), r.PeakLoad, max(mem.Bytes(f.capacity), tr.PeakLoad()).Up()))
			}
			if f.noise > 0 || f.late > 0 {
				r.Noise, r.Late, r.Seed = f.noise, f.late, f.seed
			}
			if f.smallest {
				sizes, err := f.findSmallest(s, a, tr, config, r.PeakReserved)
				if s.ctx.Err() != nil {
					return
				}
				if err != nil {
					s.fail(fmt.Errorf("%s, allocator %s, the smallest device: %w", path, a.Name,
						err))
				}
				r.FitsIn, r.FullSpeedIn = sizes.FitsIn, sizes.FullSpeedIn
			}
			s.emit(replayResult{formatVersion, r})
			if r.OOM {
				r.PeakLoad = tr.PeakLoad() // tables have that of the whole run
			}
			v.add(r)
			s.progress.advance(i + 1)
		}
	})
	return s.finishAll(v.tables(s.ctx.Err() == nil))
}

// check returns the allocators that are named, or what is wrong with the flags.
func (f *replayFlags) check() ([]replay.Allocator, error) {
	allocators, err := lookup(f.allocators)
	if err != nil {
		return nil, err
	}
	if f.noPlan {
		f.without = without.Plans
	}
	for _, name := range f.off {
		x, err := without.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("--without %w", err)
		}
		f.without |= x
	}
	if !(f.noise >= 0 && f.noise <= 1) {
		return nil, fmt.Errorf("--noise %v is no share: give a number from 0 to 1, such as 0.01 for one request in a hundred", f.noise)
	}
	if !(f.late >= 0 && f.late <= 1) {
		return nil, fmt.Errorf("--late %v is no share: give a number from 0 to 1, such as 0.01 for one block in a hundred", f.late)
	}
	if f.show == "" && !f.smallest {
		f.show = measures[0].name
	}
	if slices.Contains(needsSmallest, f.show) && !f.smallest {
		return nil, fmt.Errorf("--show %s needs --smallest, which finds it in ten replays or more",
			f.show)
	}
	if f.show == "" {
		return allocators, nil
	}
	_, err = findMeasure(f.show)
	return allocators, err
}

// lists reports whether the mechanisms are to be listed.
func (f *replayFlags) lists() bool { return len(f.off) == 1 && f.off[0] == "list" }

// view is how results are laid out for people.
type view interface {
	add(replay.Result)
	tables(ended bool) []drawn // not ended: what is not there was not tried
}

func (f *replayFlags) view(s *session) view {
	if f.wide {
		return &wideTable{smallest: f.smallest}
	}
	shown := []string{f.show}
	if f.show == "" {
		shown = needsSmallest
	}
	var all comparisons
	for _, name := range shown {
		m, _ := findMeasure(name) // checked
		all = append(all, &comparison{measure: m, capacity: mem.Bytes(f.capacity),
			markdown: f.format == asMD, colours: coloured(s.out)})
	}
	return all
}

// requested is the size of a recording's request, by its number from 1.
func requested(tr *trace.Trace, number int64) mem.Bytes {
	for _, e := range tr.Events {
		if e.Kind == trace.Alloc {
			number--
		}
		if number == 0 {
			return e.Size
		}
	}
	return 0
}

func (f *replayFlags) findSmallest(s *session, a replay.Allocator, tr *trace.Trace, c replay.Config,
	reserved mem.Bytes) (replay.Sizes, error) {
	return a.Smallest(s.ctx, tr, c, reserved, func(capacity mem.Bytes) func(done, total int) {
		return s.progress.begin(fmt.Sprintf("%s, %s on %v", tr.Name, a.Name, capacity))
	})
}
