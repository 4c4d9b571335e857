package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/report"
	"stalloc/trace"
)

// growth is how much a peak may grow: a share of it, or an amount.
type growth struct {
	text  string // "": as much as it likes
	share float64
	bytes mem.Bytes
}

func (g *growth) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	if percent {
		share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(share >= 0) || math.IsInf(share, 0) {
			return fmt.Errorf("%q is no share: write 1%%", text)
		}
		*g = growth{text: text, share: share / 100}
		return nil
	}
	var bytes size
	if strings.Trim(number, "0") != "" {
		if err := bytes.Set(number); err != nil {
			return fmt.Errorf("%w; or a share of the peak, as in 1%%", err)
		}
	}
	*g = growth{text: text, bytes: mem.Bytes(bytes)}
	return nil
}

func (g *growth) String() string { return g.text }
func (g *growth) Type() string   { return "growth" }

// exceeded reports whether the peak has grown by more.
func (g *growth) exceeded(d *report.Diff) bool {
	allowed := max(float64(g.bytes), g.share*float64(d.Base.Load))
	return g.text != "" && float64(d.Change) > allowed
}

type diffFlags struct {
	by       string
	step     int
	device   int
	top      int
	failOver growth
	format   format
}

func newDiff() *cobra.Command {
	flags := diffFlags{step: -1, device: -1, top: 20, format: asTable}
	cmd := &cobra.Command{
		Use:   "diff [flags] BASE NEW",
		Short: "What a change did to memory: two recordings, side by side",
		Long: `Diff compares two runs, recordings or memory snapshots of PyTorch's: the blocks
that were live at the peak of each, and the peak of each step. These are the
program's own tensors, the same under every allocator; nothing is replayed.

Blocks are grouped by the call stack that requested them, by shape (the bytes
requested), or by the phase of the step. Stacks match by files and functions:
lines and folders may differ. The default is stack where both runs have them
(snapshots, and recordings made with --stacks), else shape.

With --fail-over the exit status is 1 if NEW's peak is higher than BASE's by
more than that: for CI. JSON is one object; its key "version" rises when a key
changes its meaning or goes.`,
		Example: `  stalloc diff base.csv.gz new.csv.gz
  stalloc diff --by phase --step 2 base.csv.gz new.csv.gz
  stalloc diff --fail-over 1% --format md base.pickle new.pickle`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("a difference is of two runs, BASE and NEW, but %d are named",
					len(args))
			}
			return nil
		},
		ValidArgsFunction: traceFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.run(cmd,
				args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.by, "by", "", "group by "+strings.Join(report.Groupings,
		", ")+" (default stack if both have stacks, else shape)")
	f.IntVar(&flags.step, "step", flags.step,
		"compare at the peak of this `step`, from 0; the highest peak if negative")
	f.IntVar(&flags.device, "device", flags.device,
		"for snapshots: the `number` of the device; if negative, the first that has events")
	f.IntVar(&flags.top, "top", flags.top,
		"print at most this many groups and steps; 0 prints all, and JSON has all")
	f.Var(&flags.failOver, "fail-over",
		"fail if the peak has grown by more than this: a share, as in 1%, or an amount"+amounts)
	f.Var(&flags.format, "format",
		"table, md or json: 'stalloc help keys' explains the keys of json")
	f.VarPF(jsonFlag{&flags.format}, "json", "", "the same as --format json").NoOptDefVal = "true"
	complete(cmd, map[string][]string{"by": report.Groupings,
		"format": {string(asTable), string(asMD), string(asJSON)}})
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, paths []string) error {
	switch {
	case f.by != "" && !slices.Contains(report.Groupings, f.by):
		return fmt.Errorf("--by %q: choose from %s", f.by, strings.Join(report.Groupings, ", "))
	case f.format == asCSV:
		return fmt.Errorf("--format csv: a difference is several tables; choose from table, md, json")
	case f.top < 0:
		return fmt.Errorf("--top %d: give a number, or 0 for all", f.top)
	}
	s := newSession(cmd, f.format, len(paths))
	options := []trace.Option{trace.Frames()}
	if f.device >= 0 {
		options = append(options, trace.Device(f.device))
	}
	var runs []*trace.Trace
	for i, path := range paths {
		s.progress.startAt(i)
		s.progress.begin("reading " + path)
		tr, err := readRun(path, options...)
		if err != nil {
			s.fail(err)
			continue
		}
		runs = append(runs, tr)
	}
	if err := chosen(f.device, runs); err != nil && !s.failed && s.ctx.Err() == nil {
		s.fail(err)
	}
	if s.failed || s.ctx.Err() != nil {
		return s.finishAll(nil)
	}
	d, err := report.NewDiff(runs[0], runs[1], f.by, f.step)
	if err != nil {
		s.fail(err)
		return s.finishAll(nil)
	}
	s.emit(d)
	tables := f.tables(d)
	if f.failOver.exceeded(d) {
		defer fmt.Fprintf(s.errs,
			"stalloc: the peak is %v higher, which --fail-over %s does not allow\n", d.Change, f.failOver.text)
	}
	if err := s.finishAll(tables); err != nil || !f.failOver.exceeded(d) {
		return err
	}
	return errFailed
}

func (f *diffFlags) tables(d *report.Diff) []drawn {
	notes := ""
	for _, r := range []report.DiffRun{d.Base, d.New} {
		if r.Lost != "" {
			notes += r.Name + ": " + r.Lost + "\n"
		}
	}
	peak := newTable(1, "peak", shown(d.Base.Name, longest), shown(d.New.Name, longest), "change")
	peak.AppendRow(table.Row{"live", d.Base.Load, d.New.Load,
		fmt.Sprintf("%s (%s)", report.Signed(d.Change), report.SignedShare(d.Share))})
	peak.AppendRow(table.Row{"blocks", d.Base.Blocks, d.New.Blocks,
		fmt.Sprintf("%+d", d.New.Blocks-d.Base.Blocks)})
	peak.AppendRow(table.Row{"in", shown(d.Base.Step, longestGroup), shown(d.New.Step, longestGroup),
		""})
	all := []drawn{{peak, notes}}

	groups := newTable(1, "live at the peak, by "+d.By, "base", "new", "change", "blocks")
	same, left := 0, 0
	for _, g := range d.Groups {
		switch {
		case g.Change == 0 && g.BaseBlocks == g.NewBlocks:
			same++
		case f.top > 0 && groups.Length() == f.top:
			left++
		default:
			groups.AppendRow(table.Row{shown(g.What, longestGroup), g.Base, g.New,
				report.Signed(g.Change), blocksOf(g)})
		}
	}
	notes = fmt.Sprintf("%d more are the same in both\n", same)
	if left > 0 {
		notes = fmt.Sprintf("%d more differ less; --top 0 prints them, too\n", left) + notes
	}
	if groups.Length() == 0 {
		groups = nil
	}
	if groups != nil {
		all = append(all, drawn{groups, notes})
	}
	steps, left := newTable(1, "peak of each step", "base", "new", "change"), 0
	for _, p := range d.Steps {
		if f.top > 0 && steps.Length() == f.top {
			left++
			continue
		}
		steps.AppendRow(table.Row{shown(p.Name, longestGroup), present(p.Base), present(p.New),
			report.Signed(p.Change)})
	}
	if notes = ""; left > 0 {
		notes = fmt.Sprintf("%d more; --top 0 prints them, too\n", left)
	}
	return append(all, drawn{steps, notes})
}

// shown is a name of a file's, as much as there is room for.
func shown(name string, most int) string { return text.Snip(output.Printable(name), most, "~") }

// longestGroup is how much of a group's name fits beside its figures in 80 columns.
const longestGroup = 32

func blocksOf(g report.DiffGroup) string {
	if g.BaseBlocks == g.NewBlocks {
		return fmt.Sprint(g.NewBlocks)
	}
	return fmt.Sprintf("%d→%d", g.BaseBlocks, g.NewBlocks)
}

// present is an amount, or a dash for a step that is not there.
func present(n mem.Bytes) string {
	if n == 0 {
		return "-"
	}
	return n.String()
}
