// Command stalloc shows where the GPU memory of training runs goes: it replays recorded
// runs through allocators, makes reports and plans of them, and watches those that run. What
// needs PyTorch it leaves to the Python package.
//
// Exit status: 0 if nothing failed, 1 if something did (each failure is named
// on standard error, and what could still be done was), 2 for a command line
// that is wrong, 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when linking; see the Makefile.
var version = "unknown"

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

// errFailed ends a command whose failures have already been reported.
var errFailed = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	out := &watched{to: stdout}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil && out.err == nil:
		return 0
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(stderr, "stalloc: interrupted")
		return exitInterrupted
	case errors.Is(err, errFailed):
		return exitFailed
	case out.err != nil:
		fmt.Fprintf(stderr, "stalloc: writing: %v\n", out.err)
		return exitFailed
	}
	fmt.Fprintf(stderr, "stalloc: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
	return exitUsage
}

// watched is the standard output. It keeps the error that cobra does not look at when it
// prints a help.
type watched struct {
	to  io.Writer
	err error
}

func (o *watched) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// behind is what a command's output goes to.
func behind(w io.Writer) io.Writer {
	if o, ok := w.(*watched); ok {
		return o.to
	}
	return w
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "stalloc",
		Short: "See where GPU memory goes, and get back what fragmentation wastes",
		Long: `stalloc is a GPU memory allocator for PyTorch training.

  stalloc doctor                          can it serve here?
  stalloc record -o run.csv.gz train.py   record a program's memory requests
  stalloc report run.csv.gz               see where its memory went, as a page
  stalloc replay run.csv.gz               what four allocators would reserve
  stalloc score run.csv.gz -- ./mine      what an allocator of yours would reserve
  stalloc diff base.csv.gz new.csv.gz     what a change did to memory
  stalloc fit --at 4=a.csv.gz --at 8=b.csv.gz   the largest batch that fits
  stalloc run train.py                    run it under stalloc
  stalloc top                             watch what runs

Record and run need a GPU. Report, replay, diff, fit and score do not: they read
recordings, plain or gzip'd, and memory snapshots from
torch.cuda.memory._dump_snapshot.

Exit status: 0 if nothing failed, 1 if something did, 2 if the command line is
wrong, 130 after an interrupt.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.SetVersionTemplate("stalloc {{.Version}}\n")
	// Cobra's own, with flags that wrap where a terminal ends.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ",
		".FlagUsagesWrapped 79 "))
	root.AddCommand(newReplay(), newTune(), newPlan(), newReport(), newDiff(), newFit(), newTop(),
		newScore(), newSimulate(), newMerge(), newVersion(), newKeys(), newDoctor(),
		newPython("run", "Run a training program under stalloc"), newPython("record",
			"Record a training program's requests for GPU memory"))
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		// cobra's own says so, and that all is well
		help.Args = func(_ *cobra.Command, topic []string) error {
			_, _, err := root.Find(topic)
			return err
		}
	}
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "stalloc %s\n", version)
		},
	}
}
