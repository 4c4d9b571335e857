package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"stalloc/internal/output"
	"stalloc/live/perfetto"
	"stalloc/trace"
)

func newMerge() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "merge [flags] PROFILER TRACE",
		Short: "Add a trace of stalloc to one of torch.profiler",
		Long: `Merge adds a trace that STALLOC_CONF=trace:FILE has written to one that
torch.profiler has exported from the same run: memory as a curve, steps, plans
and stitching beside the kernels. Both may be gzip'd. ui.perfetto.dev opens the
result.`,
		Example: `  stalloc merge profiler.json run.trace.json -o both.json`,
		Args: func(_ *cobra.Command, paths []string) error {
			if len(paths) != 2 {
				return fmt.Errorf("merge takes two files, the profiler's trace and stalloc's, but %d are named", len(paths))
			}
			if to == "" {
				return errors.New("name the file to write with -o")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			out, err := create(cmd, "-o", to)
			if err != nil {
				return err
			}
			defer out.Close()
			if err := merge(out, paths[0], paths[1]); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %v\n", err)
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "the `file` to write; - is standard output")
	return cmd
}

func merge(out *output.File, profiler, ours string) error {
	in, err := openTrace(profiler)
	if err != nil {
		return err
	}
	defer in.Close()
	events, err := openTrace(ours)
	if err != nil {
		return err
	}
	defer events.Close()
	if err := perfetto.Merge(out, in, events); err != nil {
		return fmt.Errorf("%s and %s: %w", profiler, ours, err)
	}
	return out.Commit()
}

// openTrace opens a file that may be gzip'd; one that is goes to a temporary file, because
// it is read twice.
func openTrace(path string) (io.ReadSeekCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, readError(path, err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return file, nil
	}
	defer file.Close()
	in, err := trace.Unzip(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	whole, err := os.CreateTemp("", "stalloc-*.json")
	if err != nil {
		return nil, err
	}
	os.Remove(whole.Name())
	if _, err := io.Copy(whole, in); err != nil {
		whole.Close()
		return nil, fmt.Errorf("%s is cut short or damaged: %w; copy or write it again", path, err)
	}
	_, err = whole.Seek(0, io.SeekStart)
	return whole, err
}
