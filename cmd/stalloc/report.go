package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
}

func newReport() *cobra.Command {
	flags := reportFlags{capacity: size(80 * mem.GiB), device: -1, blocks: report.DefaultBlocks}
	cmd := &cobra.Command{
		Use:   "report [flags] RUN",
		Short: "Make one HTML page of where a run's memory went",
		Long: `Report makes one self-contained HTML page of a recorded run: where every block
lay, what made the peak, what each allocator reserves for it, what the
difference is worth, and which requests the plan did not serve and why.

RUN is a recording, a memory snapshot of PyTorch's (with its stacks), a plan
file, or the log of a live run (STALLOC_CONF=trace:FILE), which knows curves and
no blocks. A recording is replayed through every allocator on a simulated device.`,
		Example: `  stalloc report -o report.html tests/traces/llama_varlen.csv.gz
  stalloc report -o report.html snapshot.pickle
  stalloc report -o plan.html llama.plan`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("a report is of one run, but %d are named", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "report.html", "write the page to this `file`")
	f.Var(&flags.capacity, "capacity", "memory of the simulated device")
	f.IntVar(&flags.device, "device", flags.device, "of a snapshot or a log: the `number` of the device; the first that has events if negative")
	f.BoolVar(&flags.warm, "warm", false, "stalloc: show the second of two starts")
	f.IntVar(&flags.blocks, "blocks", flags.blocks, "draw at most so many blocks, the peak's step always")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, path string) error {
	if f.blocks < 1 {
		return fmt.Errorf("--blocks %d: give a number of at least 1", f.blocks)
	}
	folder := filepath.Dir(f.output)
	if at, err := os.Stat(folder); err != nil || !at.IsDir() {
		return fmt.Errorf("-o %s: there is no folder %s: make it, or choose another file", f.output, folder)
	}
	ctx, errs := cmd.Context(), cmd.ErrOrStderr()
	say, clear := spinner(errs)
	data, err := report.Load(ctx, path, report.Options{
		Device: f.device, Capacity: mem.Bytes(f.capacity), Warm: f.warm, Blocks: f.blocks, Progress: say,
	})
	clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(errs, "stalloc: %v\n", runError(path, err))
		return errFailed
	}
	written, err := f.write(data)
	if err != nil {
		fmt.Fprintf(errs, "stalloc: writing the page: %v; choose another file with -o\n", err)
		return errFailed
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %.1f MB", f.output, float64(written)/1e6)
	if data.Blocks > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), ", %d of %d blocks drawn", len(data.Window.From), data.Blocks)
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return nil
}

// spinner says what is being done, to a person at a terminal and nobody else.
func spinner(errs io.Writer) (say func(string), clear func()) {
	file, ok := errs.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(file), progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())
	return bar.Describe, func() { _ = bar.Finish() } // one that cannot be drawn is no failure
}

// runError names the file and what to do about it.
func runError(path string, err error) error {
	var format *trace.FormatError
	if errors.As(err, &format) && format.Remedy == "" {
		return fmt.Errorf("%w; a run is a recording of stalloc's, a snapshot that torch.cuda.memory._dump_snapshot wrote, a plan file, or a live run's log", err)
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return readError(path, err)
	}
	return err
}

// write makes the page beside its place and renames it: never half a page.
func (f *reportFlags) write(data *report.Data) (int64, error) {
	file, err := os.CreateTemp(filepath.Dir(f.output), filepath.Base(f.output)+".*.tmp")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name()) // there no longer if all went well
	err = data.WriteHTML(file, version)
	size, _ := file.Seek(0, 1)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(file.Name(), f.output)
}
