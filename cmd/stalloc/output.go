package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stalloc/internal/output"
)

// create begins what -o names, before the work. "-" is standard output; what the command has to
// say goes to standard error then.
func create(cmd *cobra.Command, flag, path string) (*output.File, error) {
	if path == "-" {
		out := output.To(cmd.OutOrStdout())
		cmd.SetOut(cmd.ErrOrStderr())
		return out, nil
	}
	out, err := output.Open(path, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; choose another file, or - for standard output", flag, path, err)
	}
	return out, nil
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
