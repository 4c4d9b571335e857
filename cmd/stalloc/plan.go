package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"stalloc/actors/replay"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// planResult is what planning one trace came to. With several streams, sizes
// are sums over their arenas.
type planResult struct {
	Trace      string    `json:"trace"`
	Buffers    int       `json:"buffers"`
	LowerBound mem.Bytes `json:"lower_bound_bytes"`
	Makespan   mem.Bytes `json:"makespan_bytes"`
	Gap        float64   `json:"gap"`     // Makespan / LowerBound − 1
	Seconds    float64   `json:"seconds"` // planning only, not reading the trace
}

type planFlags struct {
	format   format
	wholeRun bool
	output   string
}

func newPlan() *cobra.Command {
	flags := planFlags{format: asTable}
	cmd := &cobra.Command{
		Use:   "plan [flags] TRACE...",
		Short: "Plan the memory of recorded runs",
		Long: `Plan decides where each block of a recorded step will lie and says how close
the result comes to the lower bound, the peak load of the planned blocks.

It plans the last step of the recording: the blocks that begin and end within
it. With --whole-run the plan also covers set-up and the first step, and so the
blocks that stay for good, which a run can only use from its very start.

A recording without step marks is planned as one step.`,
		Example: `  stalloc plan tests/traces/*.csv.gz
  stalloc plan --whole-run -o llama.plan tests/traces/llama_naive.csv.gz
  stalloc plan --json snapshot.pickle`,
		Args:              atLeastOneTrace,
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return flags.run(cmd, paths)
		},
	}
	f := cmd.Flags()
	addFormat(f, &flags.format)
	f.BoolVar(&flags.wholeRun, "whole-run", false, "also plan set-up, the first step and the blocks that stay")
	f.StringVarP(&flags.output, "output", "o", "", "write the plan of the one TRACE to this `file`")
	complete(cmd, map[string][]string{"format": formats})
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, paths []string) error {
	if f.output != "" && len(paths) > 1 {
		return fmt.Errorf("a plan file holds one plan, but -o %s is given with %d traces: plan them one by one", f.output, len(paths))
	}
	s := newSession(cmd, f.format, len(paths))
	var t table.Writer
	s.eachTrace(paths, 1, func(path string, tr *trace.Trace) {
		s.progress.begin("planning " + tr.Name)
		begin := time.Now()
		p, err := f.plan(tr)
		if err != nil {
			s.fail(fmt.Errorf("%s: %w", path, err))
			return
		}
		r := summary(tr.Name, p, time.Since(begin))
		if f.output != "" {
			if err := plan.WriteFile(f.output, p); err != nil {
				s.fail(fmt.Errorf("%w; choose another file with -o", err))
				return
			}
		}
		s.emit(r)
		if t == nil {
			t = newTable(1, "recording", "blocks", "lower bound", "planned", "gap", "seconds")
		}
		t.AppendRow(table.Row{
			text.Snip(r.Trace, longest, "~"), r.Buffers, r.LowerBound, r.Makespan,
			fmt.Sprintf("%.3f %%", 100*r.Gap), fmt.Sprintf("%.2f", r.Seconds),
		})
	})
	return s.finish(t, "gap: planned / lower bound - 1; the lower bound is the blocks' peak load\n")
}

func (f *planFlags) plan(tr *trace.Trace) (*plan.Plan, error) {
	steps := replay.Observe(tr)
	last := steps[len(steps)-1]
	if !f.wholeRun {
		return plan.Make(last, plan.Options{})
	}
	run := plan.Run{Prologue: steps[0], Boundaries: 2}
	if len(steps) > 1 {
		run.Steady = [][]*plan.Step{last}
	}
	return plan.MakeRun(run, plan.Options{})
}

func summary(name string, p *plan.Plan, took time.Duration) planResult {
	r := planResult{Trace: name, Seconds: took.Seconds()}
	for _, s := range p.Streams {
		r.Buffers += len(s.Slots)
		r.LowerBound += s.LowerBound
		r.Makespan += s.Makespan
	}
	if r.LowerBound > 0 {
		r.Gap = float64(r.Makespan)/float64(r.LowerBound) - 1
	}
	return r
}
