package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/plan/solve"
	"stalloc/plan/solve/pareto"
	"stalloc/plan/solve/problemfile"
	"stalloc/trace"
)

// solveResult is what solving one problem came to.
type solveResult struct {
	versioned
	Problem string    `json:"problem"`
	Buffers int       `json:"buffers"`
	Bound   mem.Bytes `json:"bound_bytes"` // nothing ends lower
	Top     mem.Bytes `json:"top_bytes"`   // where the highest buffer ends
	Gap     float64   `json:"gap"`         // Top / Bound − 1
	Optimal bool      `json:"optimal"`
	Fits    string    `json:"fits"` // yes, no, or never
	Solver  string    `json:"solver"`
	Seed    uint64    `json:"seed"`
	Units   int64     `json:"units"` // of work
	Seconds float64   `json:"seconds"`
}

// solveFlags are those of problems.
type solveFlags struct {
	solver   string
	capacity ceiling
	budget   int64
	seed     uint64
	svg      string
	pareto   bool
}

// ceiling is a capacity in the units of the problem: a number, or 16MiB.
type ceiling mem.Bytes

func (a *ceiling) Set(text string) error {
	n, err := mem.ParseBytes(text)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%q is no capacity: give one above 0", text)
	}
	*a = ceiling(n)
	return err
}

func (a *ceiling) String() string { return fmt.Sprint(int64(*a)) }
func (a *ceiling) Type() string   { return "size" }

func (f *solveFlags) add(to *pflag.FlagSet) {
	f.solver = solve.Solvers()[0]
	var about []string
	for _, name := range solve.Solvers() {
		about = append(about, "\n"+name+": "+solve.About(name))
	}
	to.StringVar(&f.solver, "solver", f.solver,
		"`name` of the solver of problems:"+strings.Join(about, ""))
	to.Var(&f.capacity, "capacity",
		"the most memory for a problem's buffers, in its units, or as in 1MiB; without it as little as is found")
	to.Int64Var(&f.budget, "budget", solve.DefaultBudget,
		"units of work for each problem, some ten million a second")
	to.Uint64Var(&f.seed, "seed", 0,
		"seed of the random choices: the same seed and budget have the same result everywhere")
	to.StringVar(&f.svg, "svg", "",
		"draw the placement, or the front of --pareto, of the one problem into this `file`")
	to.BoolVar(&f.pareto, "pareto", false,
		"print the front of each problem: memory, handles, and what spoils a placement")
}

// wanted reports whether a recording is to be solved as a problem, its last step.
func (f *solveFlags) wanted(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("solver") || cmd.Flags().Changed("capacity") || f.svg != "" ||
		f.pareto
}

// solve solves the problems of files.
func (f *planFlags) solve(cmd *cobra.Command, paths []string) error {
	if !slices.Contains(solve.Solvers(), f.solver) {
		return fmt.Errorf("unknown --solver %q: choose from %s", f.solver,
			strings.Join(solve.Solvers(), ", "))
	}
	if f.budget <= 0 {
		return fmt.Errorf("--budget %d is none: give units of work above 0, some ten million a second", f.budget)
	}
	if name := given(cmd, "solver", "capacity", "budget"); f.pareto && name != "" {
		return fmt.Errorf("--%s is of one placement: --pareto has searches of its own, each of %d descents; leave out one of the two", name, descentsOf)
	}
	if f.pareto && f.output != "" {
		return fmt.Errorf("-o %s: --pareto prints many placements, and a file has one; leave out -o or --pareto", f.output)
	}
	if len(paths) > 1 && (f.output != "" || f.svg != "") {
		return fmt.Errorf("one file has one placement, but -o or --svg is given with %d files: solve them one by one", len(paths))
	}
	if f.output != "" && f.svg != "" && same(f.output, f.svg) {
		return fmt.Errorf("-o %s: --svg names the same file; choose another", f.output)
	}
	var offsets, svg *output.File
	for _, x := range []struct {
		flag, path string
		to         **output.File
	}{{"-o", f.output, &offsets}, {"--svg", f.svg, &svg}} {
		if x.path == "" {
			continue
		}
		out, err := create(cmd, x.flag, x.path)
		if err != nil {
			return err
		}
		defer out.Close()
		*x.to = out
	}
	s := newSession(cmd, f.format, len(paths))
	run := &solving{s, f, offsets, svg, nil}
	for i, path := range paths {
		if s.ctx.Err() != nil {
			break
		}
		s.progress.startAt(i)
		s.progress.begin("reading " + path)
		file, err := problem(path)
		if err == nil {
			err = run.one(trace.BaseName(path), file)
		}
		if err != nil {
			s.fail(err)
		}
	}
	if f.pareto {
		return s.finish(run.table, pareto.Notes)
	}
	return s.finish(run.table,
		"gap: top / bound - 1, where bound is the peak load; fits: within --capacity, or never, which is proved\n")
}

// solving is a run of plan over problems.
type solving struct {
	s            *session
	f            *planFlags
	offsets, svg *output.File
	table        table.Writer
}

// one solves a problem, prints it, and writes what is wanted.
func (r *solving) one(name string, file *problemfile.File) error {
	f, p := r.f, &file.Problem
	p.Capacity = mem.Bytes(f.capacity)
	if f.pareto {
		return r.front(name, p)
	}
	begin := time.Now()
	x, err := solve.Solve(p, solve.Options{Solver: f.solver, Budget: f.budget, Seed: f.seed,
		Progress: func(now solve.Solution) bool {
			if tell := r.s.progress.begin(fmt.Sprintf("%s, gap %.3f %%", name,
				100*now.Gap())); tell != nil {
				tell(int(now.Units), int(f.budget))
			}
			return r.s.ctx.Err() == nil
		}})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	out := solveResult{formatVersion, name, len(p.Buffers), x.Bound, x.Top, x.Gap(), x.Optimal,
		fits(&x), f.solver, f.seed, x.Units, time.Since(begin).Seconds()}
	r.s.emit(out)
	if r.table == nil {
		r.table = newTable(1, "problem", "buffers", "bound", "top", "gap", "optimal", "fits",
			"seconds")
	}
	r.table.AppendRow(table.Row{text.Snip(name, longest, "~"), out.Buffers, int64(out.Bound),
		int64(out.Top),
		fmt.Sprintf("%.3f %%", 100*out.Gap), yes(out.Optimal), out.Fits, fmt.Sprintf("%.2f",
			out.Seconds)})
	switch {
	case x.Never:
		return fmt.Errorf("%s never fits in --capacity %d: nothing ends below %d, give that or more", name, p.Capacity, x.Bound)
	case !x.Fits:
		return fmt.Errorf("%s: the best placement ends at %d, above --capacity %d: give more, or a larger --budget to look further", name, x.Top, p.Capacity)
	}
	if r.offsets != nil {
		if err := problemfile.Write(r.offsets, file, x.Offsets); err != nil {
			return fmt.Errorf("-o %s: %w; choose another file", f.output, err)
		}
		if err := r.offsets.Commit(); err != nil {
			return fmt.Errorf("-o %s: %w; choose another file", f.output, err)
		}
	}
	return r.draw(func(w io.Writer) error { return drawPlacement(w, p, x.Offsets, x.Top) })
}

func (r *solving) draw(what func(io.Writer) error) error {
	if r.svg == nil {
		return nil
	}
	err := what(r.svg)
	if err == nil {
		err = r.svg.Commit()
	}
	if err != nil {
		return fmt.Errorf("--svg %s: %w; choose another file", r.f.svg, err)
	}
	return nil
}

func fits(x *solve.Solution) string {
	switch {
	case x.Never:
		return "never"
	case x.Fits:
		return "yes"
	}
	return "no"
}
