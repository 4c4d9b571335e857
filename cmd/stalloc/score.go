package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/score"
	"stalloc/trace"
)

type scoreFlags struct {
	name     string
	capacity size
	timeout  time.Duration
	smallest bool
	stitched bool
	format   format
}

func newScore() *cobra.Command {
	flags := scoreFlags{name: "simulator", capacity: size(80 * mem.GiB), timeout: score.DefaultTimeout,
		format: asTable}
	cmd := &cobra.Command{
		Use:   "score [flags] TRACE... -- SIMULATOR [ARGUMENT]...",
		Short: "Score an allocator of your own on recorded runs",
		Long: `Score has your allocator serve the requests of recordings. It is a program in
any language, called the simulator, that reads events on its standard input and
writes an address for each request, or that the device is full, on its standard
output: docs/score.md has the protocol, examples/first_fit.py is one of forty
lines. It starts once for each recording; {} in an argument stands for the
recording's path.

What it answers is checked: live blocks share no byte, addresses are multiples
of 512, and what is reserved covers the pages of the live blocks and fits the
device. Waste is 1 - peak load / peak reserved.

--smallest finds the smallest device that the run fits in, by running it on
others, ten to twenty times, and, if the simulator counts its retries and its
time in the driver, the smallest on which it runs at full speed; see 'stalloc
replay --help'.`,
		Example: `  stalloc score tests/traces/llama_naive.csv.gz -- python3 examples/first_fit.py
  stalloc score --smallest --json tests/traces/apart/*.csv.gz -- ./simulator`,
		Args: func(cmd *cobra.Command, args []string) error {
			return atLeastOneTrace(cmd, args[:max(0, split(cmd, args))])
		},
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			n := split(cmd, args)
			return flags.run(cmd, args[:n], args[n:])
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.name, "name", flags.name, "name of the simulator, in JSON and CSV")
	f.Var(&flags.capacity, "capacity", "memory of the simulated device"+amounts)
	f.DurationVar(&flags.timeout, "timeout", flags.timeout, "how long an answer may take")
	f.BoolVar(&flags.smallest, "smallest", false, "find the smallest devices that suffice")
	f.BoolVar(&flags.stitched, "stitched", false,
		"it maps the same memory at several addresses: count live bytes, not pages")
	addFormat(f, &flags.format)
	complete(cmd, map[string][]string{"format": formats})
	return cmd
}

// split is how many of the arguments stand before the simulator's.
func split(cmd *cobra.Command, args []string) int {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return n
	}
	return len(args)
}

func (f *scoreFlags) run(cmd *cobra.Command, paths, command []string) error {
	if _, err := score.New(f.name, command, f.timeout); err != nil {
		return err
	}
	s := newSession(cmd, f.format, len(paths))
	table := &scoreTable{smallest: f.smallest}
	s.eachTrace(paths, 1, func(path string, tr *trace.Trace) {
		words := make([]string, len(command))
		for i, word := range command {
			words[i] = strings.ReplaceAll(word, "{}", path)
		}
		sim, err := score.New(f.name, words, f.timeout)
		if err != nil {
			s.fail(err)
			return
		}
		sim.Stitched = f.stitched
		r, err := f.score(s, sim, tr)
		if s.ctx.Err() != nil {
			return
		}
		if err != nil {
			s.fail(fmt.Errorf("%s, %s: %w", path, sim.Name, err))
			return
		}
		if r.OOM {
			s.fail(fmt.Errorf("%s, %s: it says full at request %d, of %v, beside %v of live blocks; give the device more than %v with --capacity",
				path, sim.Name, r.Requests, requested(tr, r.Requests), r.PeakLoad,
				max(mem.Bytes(f.capacity), tr.PeakLoad()).Up()))
		}
		s.emit(replayResult{formatVersion, r})
		if r.OOM {
			r.PeakLoad = tr.PeakLoad() // tables have that of the whole run
		}
		table.add(r)
	})
	return s.finish(table.t, "waste: 1 - peak load / peak reserved, in %\n")
}

// score runs one recording.
func (f *scoreFlags) score(s *session, sim *score.Simulator, tr *trace.Trace) (replay.Result,
	error) {
	a := sim.Allocator()
	config := replay.Config{Capacity: mem.Bytes(f.capacity)}
	r, err := a.Replay(s.ctx, tr, config, s.progress.begin(tr.Name+", "+sim.Name))
	if err != nil || !f.smallest {
		return r, bare(err)
	}
	sizes, err := a.Smallest(s.ctx, tr, config, r.PeakReserved,
		func(capacity mem.Bytes) func(done, total int) {
			return s.progress.begin(fmt.Sprintf("%s, %s on %v", tr.Name, sim.Name, capacity))
		})
	if r.FitsIn = sizes.FitsIn; sim.Counted {
		r.FullSpeedIn = sizes.FullSpeedIn
	}
	return r, bare(err)
}

// bare returns a score.Error without the replay's wrapping, which repeats where it happened.
func bare(err error) error {
	var wrong *score.Error
	if errors.As(err, &wrong) {
		return wrong
	}
	return err
}

type simulateFlags struct {
	allocator string
	warm      bool
	fragLimit size
}

// newSimulate is the other end of score.
func newSimulate() *cobra.Command {
	flags := simulateFlags{allocator: "stalloc", fragLimit: size(replay.DefaultFragLimit)}
	cmd := &cobra.Command{
		Use:   "simulate [flags] TRACE",
		Short: "Act as a simulator for score, with one of replay's allocators",
		Long: `Simulate serves a recording through one of the allocators that replay knows, by
the protocol of 'stalloc score': events come on standard input, answers go to
standard output. It reads the recording, too, for what the protocol does not
tell ahead: when a late free will complete.`,
		Example: `  stalloc score run.csv.gz -- stalloc simulate --allocator expandable {}`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := replay.Lookup(flags.allocator)
			if err != nil {
				return err
			}
			tr, err := readRun(args[0])
			if err == nil {
				config := replay.Config{FragLimit: mem.Bytes(flags.fragLimit), Warm: flags.warm}
				err = score.Answer(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(),
					cmd.OutOrStdout(), tr, a, config)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "stalloc: %v\n", err)
				return errFailed
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.allocator, "allocator", flags.allocator,
		"one of "+strings.Join(replay.Names(), ", "))
	f.BoolVar(&flags.warm, "warm", false, "be the second of two starts")
	f.Var(&flags.fragLimit, "frag-limit", "gmlake: do not stitch requests below this size"+amounts)
	complete(cmd, map[string][]string{"allocator": replay.Names()})
	return cmd
}
