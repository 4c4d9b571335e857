package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"stalloc/internal/mem"
	"stalloc/report"
	"stalloc/trace"
)

type reportFlags struct {
	output   string
	capacity size
	device   int
	warm     bool
	blocks   int
	quick    bool
}

func newReport() *cobra.Command {
	flags := reportFlags{capacity: size(80 * mem.GiB), device: -1, blocks: report.DefaultBlocks}
	cmd := &cobra.Command{
		Use:   "report [flags] RUN [NEW]",
		Short: "Make one HTML page of where a run's memory went, or of what a change did to it",
		Long: `Report makes one self-contained HTML page of a recorded run: which allocator to
use and what it saves, what made the peak, where every block lay, what each
allocator reserves, and which requests the plan did not serve and why. It gives
advice from the blocks' lifetimes: activations kept across the peak, gradients
kept past their step, logits and optimizer copies at the peak, what is cached
for one stream, a leak.

RUN is a recording, a memory snapshot of PyTorch's (with its stacks), a plan
file, or the log of a live run (STALLOC_CONF=trace:FILE), which has curves but
no blocks. A recording is replayed through every allocator on a simulated
device, and then on smaller ones, to find the smallest it fits in and the
smallest it runs at full speed in, as 'stalloc replay --smallest' does. --quick
leaves that out.

With two recordings or snapshots the page shows what changed from the first to
the second, as 'stalloc diff' does.`,
		Example: `  stalloc report -o report.html tests/traces/llama_varlen.csv.gz
  stalloc report -o report.html snapshot.pickle
  stalloc report -o change.html base.csv.gz new.csv.gz
  stalloc report -o plan.html llama.plan`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return fmt.Errorf("a report is of one run, or of two that are compared, but %d are named", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "report.html",
		"write the page to this `file`; - is standard output")
	f.Var(&flags.capacity, "capacity", "memory of the simulated device"+amounts)
	f.IntVar(&flags.device, "device", flags.device,
		"for a snapshot or a log: the `number` of the device; if negative, the first that has events")
	f.BoolVar(&flags.warm, "warm", false, "stalloc: show the second of two starts")
	f.BoolVar(&flags.quick, "quick", false, "do not look for the smallest devices that suffice")
	f.IntVar(&flags.blocks, "blocks", flags.blocks,
		"draw at most this many blocks, always those of the peak's step")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, paths []string) error {
	if f.blocks < 1 {
		return fmt.Errorf("--blocks %d: give a number of at least 1", f.blocks)
	}
	if len(paths) == 1 { // two are recordings or snapshots
		if err := readTwice(paths[0]); err != nil {
			return err
		}
	} else if name := given(cmd, "capacity", "warm", "quick", "blocks"); name != "" {
		return fmt.Errorf("--%s is for a report of one run: two are compared, and nothing is replayed; leave it out", name)
	}
	out, err := create(cmd, "-o", f.output)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, errs := cmd.Context(), cmd.ErrOrStderr()
	say, clear := spinner(errs)
	data, of, err := f.load(ctx, paths, say)
	clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(errs, "stalloc: %v\n", err)
		return errFailed
	}
	page := &counted{out, 0}
	if err = data.WriteHTML(page, version); err == nil {
		err = out.Commit()
	}
	if err != nil {
		fmt.Fprintf(errs, "stalloc: writing the page: %v; choose another file with -o\n", err)
		return errFailed
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %v%s\n", f.output, mem.Bytes(page.n), of)
	return nil
}

// document is what can be made into a page.
type document interface {
	WriteHTML(w io.Writer, version string) error
}

// load reads one run, or two to be compared, and says in words what is drawn of it.
func (f *reportFlags) load(ctx context.Context, paths []string, say func(string)) (d document,
	of string, err error) {
	if len(paths) == 2 {
		return f.compare(paths)
	}
	data, err := report.Load(ctx, paths[0], report.Options{
		Device: f.device, Capacity: mem.Bytes(f.capacity), Warm: f.warm, Blocks: f.blocks,
		Quick: f.quick, Progress: say,
	})
	if err != nil {
		return nil, "", runError(paths[0], err)
	}
	if data.Blocks > 0 {
		of = fmt.Sprintf(", %d of %d blocks drawn", len(data.Window.From), data.Blocks)
	}
	return data, of, nil
}

func (f *reportFlags) compare(paths []string) (document, string, error) {
	runs, err := framed(f.device, paths)
	if err != nil {
		return nil, "", err
	}
	c, err := report.Compare(runs[0], runs[1])
	if err != nil {
		return nil, "", err
	}
	return c, ": " + c.Diffs[0].Verdict(), nil
}

// framed reads recordings with their stacks; of snapshots a device, any if that is negative.
func framed(device int, paths []string) ([]*trace.Trace, error) {
	options := []trace.Option{trace.Frames()}
	if device >= 0 {
		options = append(options, trace.Device(device))
	}
	var runs []*trace.Trace
	for _, path := range paths {
		tr, err := readRun(path, options...)
		if err != nil {
			return nil, err
		}
		runs = append(runs, tr)
	}
	return runs, chosen(device, runs)
}

// chosen refuses the number of a device where no run is a snapshot.
func chosen(device int, runs []*trace.Trace) error {
	if device < 0 || slices.ContainsFunc(runs,
		func(tr *trace.Trace) bool { return tr.Device == device }) {
		return nil
	}
	return report.ErrOneDevice
}

// spinner says what is being done, to a person at a terminal and nobody else.
func spinner(errs io.Writer) (say func(string), clear func()) {
	file, ok := errs.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(file),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())
	return bar.Describe, func() { _ = bar.Finish() } // one that cannot be drawn is no failure
}

// runError names the file and what to do about it.
func runError(path string, err error) error {
	var format *trace.FormatError
	if errors.As(err, &format) && format.Remedy == "" {
		return fmt.Errorf("%w; a run is a recording of stalloc's, a snapshot that torch.cuda.memory._dump_snapshot wrote, a plan file, or a live run's log", err)
	}
	var file *os.PathError
	if errors.As(err, &file) {
		return readError(path, err)
	}
	return err
}
