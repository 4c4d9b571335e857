package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/plan/solve"
	"stalloc/replay"
	"stalloc/trace"
)

// planResult is what planning one trace came to. Sizes are sums over the steps that came again.
type planResult struct {
	versioned
	Trace    string    `json:"trace"`
	Requests int       `json:"requests"`        // of the steps that came again
	Load     mem.Bytes `json:"peak_load_bytes"` // of those steps
	Hold     mem.Bytes `json:"hold_bytes"`      // what the plan needs
	Gap      float64   `json:"gap"`             // Hold / Load − 1
	Steady   bool      `json:"steady"`          // steps came again: the plan has some
	Seconds  float64   `json:"seconds"`         // the replay and planning, not reading the trace
}

type planFlags struct {
	solveFlags
	format format
	output string
}

func newPlan() *cobra.Command {
	flags := planFlags{format: asTable}
	cmd := &cobra.Command{
		Use:   "plan [flags] FILE...",
		Short: "Plan the memory of recorded runs, or solve problems of storage allocation",
		Long: `Plan replays a recorded run, plans its steps as a live run would, and says how
much memory the repeated steps need beside their peak load, which is the lower
bound.

With -o it writes what the run keeps for later ones: those steps, and how long
their blocks live. A later run of the program plans them again, around its own
memory, as soon as there is room: it need not see a step repeat first.

A FILE may also be a problem: lines of id,lower,upper,size[,gaps...], with or
without a header (the formats of minimalloc, idealloc and TelaMalloc). Its
buffers get offsets, as low as possible or below a --capacity; -o writes them.
With --solver, --capacity, --svg or --pareto the last step of a recording is
such a problem. An interrupt ends the search and prints the best result so far.`,
		Example: `  stalloc plan tests/traces/llama_vpp.csv.gz tests/traces/vit_streams.csv.gz
  stalloc plan -o llama.plan tests/traces/llama_naive.csv.gz
  stalloc plan --json snapshot.pickle
  stalloc plan --capacity 1048576 -o offsets.csv problem.csv
  stalloc plan --solver stalloc tests/traces/llama_vpp.csv.gz
  stalloc plan --pareto --svg front.svg tests/traces/gpt2_naive.csv.gz`,
		Args:              atLeastOneTrace,
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return flags.run(cmd, paths)
		},
	}
	f := cmd.Flags()
	addFormat(f, &flags.format)
	flags.add(f)
	f.StringVarP(&flags.output, "output", "o", "",
		"write the plan of the one recording, or the offsets of the one problem, to this `file`; - is standard output")
	complete(cmd, map[string][]string{"format": formats, "solver": solve.Solvers()})
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, paths []string) error {
	problems := 0
	for _, path := range paths {
		if err := readTwice(path); err != nil {
			return err
		}
		if isProblem(path) {
			problems++
		}
	}
	switch {
	case f.wanted(cmd) || problems == len(paths):
		return f.solve(cmd, paths)
	case problems > 0:
		return fmt.Errorf("%d of %d files are problems and the others are not: give them apart, or name a --solver for all", problems, len(paths))
	}
	if name := given(cmd, "budget", "seed"); name != "" {
		return fmt.Errorf("--%s is for problems: a recording is planned as a live run plans it; to solve its last step as a problem, add --solver %s", name, f.solver)
	}
	if f.output != "" && len(paths) > 1 {
		return fmt.Errorf("a plan file holds one plan, but -o %s is given with %d traces: plan them one by one", f.output, len(paths))
	}
	var out *output.File
	if f.output != "" {
		var err error
		if out, err = create(cmd, "-o", f.output); err != nil {
			return err
		}
		defer out.Close()
	}
	s := newSession(cmd, f.format, len(paths))
	var t table.Writer
	s.eachTrace(paths, 1, func(path string, tr *trace.Trace) {
		s.progress.begin("planning " + tr.Name)
		begin := time.Now()
		p, replayed, err := replay.Plan(cmd.Context(), tr)
		if cmd.Context().Err() != nil {
			return
		}
		if err != nil {
			if replayed.Hits > 0 {
				err = fmt.Errorf("%w; what plans served in it, %.2f %% of the requests, are small ones, which later runs are not told of", err, 100*hitShare(replayed))
			}
			s.fail(fmt.Errorf("%s: %w", path, err))
			return
		}
		r := summary(tr.Name, p, time.Since(begin))
		if out != nil {
			if err = p.Encode(out); err == nil {
				err = out.Commit()
			}
			if err != nil {
				s.fail(fmt.Errorf("-o %s: %w; choose another file", f.output, err))
				return
			}
		}
		s.emit(r)
		if t == nil {
			t = newTable(1, "recording", "requests", "peak load", "to hold", "gap", "steady",
				"seconds")
		}
		t.AppendRow(table.Row{
			text.Snip(r.Trace, longest, "~"), r.Requests, r.Load, r.Hold, fmt.Sprintf("%.3f %%",
				100*r.Gap), yes(r.Steady), fmt.Sprintf("%.2f", r.Seconds),
		})
	})
	return s.finish(t, "gap: to hold / peak load - 1; steady: steps came again, and the plan has them\n")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func summary(name string, p *plan.Plan, took time.Duration) planResult {
	r := planResult{versioned: formatVersion, Trace: name, Requests: p.Requests(),
		Steady: len(p.Steps) > 0, Seconds: took.Seconds()}
	for i := range p.Steps {
		r.Hold += p.Steps[i].Placed().Makespan
		r.Load += descent.LowerBound(p.Steps[i].Buffers(p.Steps[i].End()))
	}
	if r.Load > 0 {
		r.Gap = float64(r.Hold)/float64(r.Load) - 1
	}
	return r
}
