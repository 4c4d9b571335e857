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

// planResult is what planning one trace came to. Sizes are sums over streams.
type planResult struct {
	Trace    string    `json:"trace"`
	Requests int       `json:"requests"`
	Load     mem.Bytes `json:"peak_load_bytes"` // of the whole recording
	Hold     mem.Bytes `json:"hold_bytes"`      // what the plan needs
	Gap      float64   `json:"gap"`             // Hold / Load − 1
	Steady   bool      `json:"steady"`          // the steps repeat: the plan has one
	Seconds  float64   `json:"seconds"`         // the replay and planning, not reading the trace
}

type planFlags struct {
	format format
	output string
}

func newPlan() *cobra.Command {
	flags := planFlags{format: asTable}
	cmd := &cobra.Command{
		Use:   "plan [flags] TRACE...",
		Short: "Plan the memory of recorded runs",
		Long: `Plan replays a recorded run, has it planned as a live run would be, and says how
much memory the plan needs beside the peak load of the recording, below which
nothing can go.

The plan covers set-up, the first steps and, if the steps repeat, one of them. A
later run of the program is served from it from its first request on.`,
		Example: `  stalloc plan tests/traces/*.csv.gz
  stalloc plan -o llama.plan tests/traces/llama_naive.csv.gz
  stalloc plan --json snapshot.pickle`,
		Args:              atLeastOneTrace,
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return flags.run(cmd, paths)
		},
	}
	f := cmd.Flags()
	addFormat(f, &flags.format)
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
		p, result, err := replay.Plan(cmd.Context(), tr)
		if cmd.Context().Err() != nil {
			return
		}
		if err != nil {
			s.fail(fmt.Errorf("%s: %w", path, err))
			return
		}
		r := summary(tr.Name, p, result.PeakLoad, time.Since(begin))
		if f.output != "" {
			if err := plan.WriteFile(f.output, p); err != nil {
				s.fail(fmt.Errorf("%w; choose another file with -o", err))
				return
			}
		}
		s.emit(r)
		if t == nil {
			t = newTable(1, "recording", "requests", "peak load", "to hold", "gap", "steady", "seconds")
		}
		t.AppendRow(table.Row{
			text.Snip(r.Trace, longest, "~"), r.Requests, r.Load, r.Hold, fmt.Sprintf("%.3f %%", 100*r.Gap), yes(r.Steady), fmt.Sprintf("%.2f", r.Seconds),
		})
	})
	return s.finish(t, "gap: to hold / peak load - 1; steady: the steps repeat, and the plan has one\n")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func summary(name string, p *plan.Plan, load mem.Bytes, took time.Duration) planResult {
	r := planResult{Trace: name, Requests: p.Requests(), Load: load, Seconds: took.Seconds()}
	for i := range p.Spaces {
		r.Hold += p.Spaces[i].Hold
		r.Steady = r.Steady || len(p.Spaces[i].Step) > 0
	}
	if load > 0 {
		r.Gap = float64(r.Hold)/float64(load) - 1
	}
	return r
}
