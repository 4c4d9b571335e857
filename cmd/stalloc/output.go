package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stalloc/internal/output"
)

// create begins what -o names, before the work. "-" is standard output; what the command has to
// say goes to standard error then. An input would be lost.
func create(cmd *cobra.Command, flag, path string) (*output.File, error) {
	if path == "-" {
		out := output.To(cmd.OutOrStdout())
		cmd.SetOut(cmd.ErrOrStderr())
		return out, nil
	}
	for _, input := range cmd.Flags().Args() {
		if same(path, input) {
			return nil, fmt.Errorf("%s %s: would replace what it is made from; choose another file",
				flag, path)
		}
	}
	out, err := output.Open(path, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; choose another file, or - for standard output", flag,
			path, err)
	}
	return out, nil
}

// same reports whether two paths name one file, or would.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, none := os.Stat(b)
	if err == nil && none == nil {
		return os.SameFile(x, y) && x.Mode().IsRegular()
	}
	return err != nil && none != nil && filepath.Clean(a) == filepath.Clean(b)
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}
