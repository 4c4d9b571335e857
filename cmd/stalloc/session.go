package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"stalloc/trace"
)

// session is one run of a command over a list of traces: failures are reported
// as they come and the rest goes on, results go out as JSON lines at once or
// as one table at the end.
type session struct {
	ctx    context.Context
	out    io.Writer
	errs   io.Writer
	json   *json.Encoder // nil for a table
	table  table.Writer
	rows   int
	failed bool
	bar    *progressbar.ProgressBar
}

func newSession(cmd *cobra.Command, asJSON bool, header table.Row, columns ...table.ColumnConfig) *session {
	s := &session{ctx: cmd.Context(), out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), table: table.NewWriter()}
	if asJSON {
		s.json = json.NewEncoder(s.out)
	}
	s.table.SetStyle(table.StyleLight)
	s.table.AppendHeader(header)
	s.table.SetColumnConfigs(columns)
	return s
}

// right aligns the named columns, for numbers.
func right(names ...string) []table.ColumnConfig {
	columns := make([]table.ColumnConfig, len(names))
	for i, name := range names {
		columns[i] = table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	return columns
}

// eachTrace reads the files one by one and hands them to work, until the
// context ends. A file that cannot be read is a failure; the others go on.
func (s *session) eachTrace(paths []string, work func(path string, tr *trace.Trace)) {
	for _, path := range paths {
		if s.ctx.Err() != nil {
			return
		}
		tr, err := trace.ReadFile(path)
		if err != nil {
			s.fail(readError(path, err))
			continue
		}
		work(path, tr)
	}
}

// readError names the file and what to do about it.
func readError(path string, err error) error {
	var format *trace.FormatError
	if errors.As(err, &format) {
		return err // names both already
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s: %w; give the path of a readable trace", path, err)
}

// emit adds one result.
func (s *session) emit(result any, row table.Row) {
	s.rows++
	if s.json == nil {
		s.table.AppendRow(row)
		return
	}
	if err := s.json.Encode(result); err != nil {
		s.fail(fmt.Errorf("writing the result: %w", err))
	}
}

// separate draws a line before the next row.
func (s *session) separate() { s.table.AppendSeparator() }

func (s *session) fail(err error) {
	s.failed = true
	s.clearProgress()
	fmt.Fprintf(s.errs, "stalloc: %v\n", err)
}

// finish prints the table, whatever there is of it, and says how it went.
func (s *session) finish() error {
	s.clearProgress()
	if s.json == nil && s.rows > 0 {
		if _, err := fmt.Fprintln(s.out, s.table.Render()); err != nil {
			s.fail(fmt.Errorf("writing the table: %w", err))
		}
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.failed {
		return errFailed
	}
	return nil
}

// progress returns a function that draws a bar, or nil where nobody would see
// it: a bar is for a person at a terminal.
func (s *session) progress(title string) func(done, total int) {
	file, ok := s.errs.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(done, total int) {
		if s.bar == nil {
			s.bar = progressbar.NewOptions(total,
				progressbar.OptionSetWriter(file),
				progressbar.OptionSetDescription(title),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetWidth(30),
				progressbar.OptionClearOnFinish())
		}
		_ = s.bar.Set(done) // a bar that cannot be drawn is no failure
		if done == total {
			s.bar = nil
		}
	}
}

func (s *session) clearProgress() {
	if s.bar != nil {
		_ = s.bar.Clear()
		s.bar = nil
	}
}
