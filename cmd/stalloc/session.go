package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"stalloc/trace"
)

// session is one run of a command over a list of traces: failures are reported as they
// come and the rest goes on. Results go out one by one where a program reads them, and
// as one table at the end where people do.
type session struct {
	ctx      context.Context
	out      io.Writer
	errs     io.Writer
	format   format
	records  *records // nil for a table
	progress *progress
	failed   bool
}

// newSession begins a command of so many pieces of work for each of its files.
func newSession(cmd *cobra.Command, f format, pieces int) *session {
	s := &session{ctx: cmd.Context(), out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), format: f}
	s.records = newRecords(f, s.out)
	s.progress = startProgress(s.errs, pieces)
	return s
}

// eachTrace reads the files one by one and hands them to work, until the
// context ends. A file that cannot be read is a failure; the others go on.
func (s *session) eachTrace(paths []string, pieces int, work func(path string, tr *trace.Trace)) {
	for i, path := range paths {
		if s.ctx.Err() != nil {
			return
		}
		s.progress.startAt(i * pieces)
		s.progress.begin("reading " + path)
		tr, err := readRun(path)
		if err != nil {
			s.fail(err)
			continue
		}
		work(path, tr)
	}
}

// readRun reads a recording that makes requests.
func readRun(path string, options ...trace.Option) (*trace.Trace, error) {
	tr, err := trace.ReadFile(path, options...)
	if err != nil {
		return nil, readError(path, err)
	}
	if tr.PeakLoad() == 0 {
		return nil, fmt.Errorf("%s holds no request for memory: record a run that makes some", path)
	}
	return tr, nil
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

// emit prints one result if a program reads them.
func (s *session) emit(result any) {
	if s.records == nil {
		return
	}
	s.progress.hide()
	if err := s.records.write(result); err != nil {
		s.fail(fmt.Errorf("writing the result: %w", err))
	}
}

func (s *session) fail(err error) {
	s.failed = true
	s.progress.hide()
	fmt.Fprintf(s.errs, "stalloc: %v\n", err)
}

// drawn is a table and the lines that explain it; nil for none.
type drawn struct {
	t     table.Writer
	notes string
}

// finish prints the table, whatever there is of it, and the lines that explain it, and
// says how it went.
func (s *session) finish(t table.Writer, notes string) error {
	return s.finishAll([]drawn{{t, notes}})
}

// finishAll is finish of several tables.
func (s *session) finishAll(tables []drawn) error {
	s.progress.stop()
	between := ""
	for _, d := range tables {
		if s.records != nil || d.t == nil {
			continue
		}
		printed := d.t.Render
		if s.format == asMD {
			printed = d.t.RenderMarkdown
			if len(tables) == 1 {
				d.notes = ""
			} else { // nothing else tells one from the other
				d.notes = "\n" + d.notes
			}
		}
		if _, err := fmt.Fprintf(s.out, "%s%s\n%s", between, printed(), d.notes); err != nil {
			s.fail(fmt.Errorf("writing the table: %w", err))
		}
		between = "\n"
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.failed {
		return errFailed
	}
	return nil
}

// newTable begins a table whose columns, but for the first so many, are numbers.
func newTable(words int, header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = text.FormatDefault, text.FormatDefault
	style.Options = table.Options{SeparateHeader: true, SeparateFooter: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		align := text.AlignRight
		if i < words {
			align = text.AlignLeft
		}
		columns[i] = table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align,
			AlignFooter: align}
	}
	t.SetColumnConfigs(columns)
	return t
}
