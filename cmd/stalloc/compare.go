package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"stalloc/internal/mem"
	"stalloc/replay"
)

// comparison is a table with a recording a row and the allocators across.
type comparison struct {
	measure  measure
	columns  []string // of allocators, as results name them
	rows     []comparedRow
	capacity mem.Bytes // of the device that the figures are of
	markdown bool
	colours  bool
}

type comparedRow struct {
	trace   string
	load    mem.Bytes
	results map[string]replay.Result // by allocator
}

func (c *comparison) add(r replay.Result) {
	if !slices.Contains(c.columns, r.Allocator) {
		c.columns = append(c.columns, r.Allocator)
	}
	if len(c.rows) == 0 || c.rows[len(c.rows)-1].trace != r.Trace ||
		c.rows[len(c.rows)-1].results[r.Allocator].Trace != "" {
		c.rows = append(c.rows, comparedRow{trace: r.Trace, results: map[string]replay.Result{}})
	}
	row := &c.rows[len(c.rows)-1]
	row.load = max(row.load, r.PeakLoad)
	row.results[r.Allocator] = r
}

// comparisons are of the same results, by one measure each.
type comparisons []*comparison

func (all comparisons) add(r replay.Result) {
	for _, c := range all {
		c.add(r)
	}
}

func (all comparisons) tables(ended bool) []drawn {
	var parts []drawn
	for _, c := range all {
		t, notes := c.table(ended)
		parts = append(parts, drawn{t, notes})
	}
	return parts
}

// table draws the comparison, and the lines that say what it shows; nil if there is none.
func (c *comparison) table(ended bool) (table.Writer, string) {
	if len(c.rows) == 0 {
		return nil, ""
	}
	header := []any{"recording", "peak load"}
	for _, name := range c.columns {
		if len(name) > widest && !c.markdown {
			name = strings.ReplaceAll(name, "-", "-\n")
		}
		header = append(header, name)
	}
	planned := c.measure.name == "waste" && slices.ContainsFunc(c.rows, func(row comparedRow) bool {
		_, ok := c.planned(row)
		return ok
	})
	if planned {
		header = append(header, "hits")
	}
	t, full := newTable(1, header...), false
	for _, row := range c.rows {
		cells := table.Row{text.Snip(row.trace, longest, "~"), amount(float64(row.load))}
		cells = append(cells, c.cells(row, ended)...)
		full = full || slices.Contains(cells[2:], any("full"))
		if planned {
			hits := "-"
			if r, ok := c.planned(row); ok {
				hits = percent(hitShare(r))
			}
			cells = append(cells, hits)
		}
		t.AppendRow(cells)
	}
	if c.measure.mean != nil && len(c.rows) > 1 {
		if cells := c.averages(); cells != nil {
			t.AppendFooter(cells)
		}
	}
	notes := c.measure.note
	if len(c.columns) > 1 {
		notes += "; * the best of a row"
	}
	if !slices.Contains(needsSmallest, c.measure.name) {
		notes += fmt.Sprintf("\non a device of %v; --smallest finds how small a one does",
			c.capacity)
	}
	notes += "\n"
	if full {
		notes += "full: the device was, and the run ended there\n"
	}
	if planned {
		notes += "hits: requests that a plan served, in % of all\n"
	}
	return t, notes
}

// What fits into 80 columns beside four allocators.
const (
	longest = 18 // name of a recording
	widest  = 10 // name of an allocator
)

func (c *comparison) cells(row comparedRow, ended bool) table.Row {
	best, found := c.best(row)
	var cells table.Row
	for _, name := range c.columns {
		r, ran := row.results[name]
		value, ok := c.measure.value(r)
		switch {
		case !ran && ended:
			cells = append(cells, "failed")
		case r.OOM && !ok:
			cells = append(cells, "full")
		case !ok && c.measure.none != nil:
			cells = append(cells, c.measure.none(r)+c.space())
		case !ok:
			cells = append(cells, "-")
		case found && c.measure.cell(value) == best && len(c.columns) > 1:
			cells = append(cells, c.mark(best))
		default:
			cells = append(cells, c.measure.cell(value)+c.space())
		}
	}
	return cells
}

// best is the best figure of a row as it is printed: what prints alike is marked alike.
func (c *comparison) best(row comparedRow) (string, bool) {
	var values []float64
	for _, name := range c.columns {
		if value, ok := c.measure.value(row.results[name]); ok {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return "", false
	}
	if c.measure.most {
		return c.measure.cell(slices.Max(values)), true
	}
	return c.measure.cell(slices.Min(values)), true
}

func (c *comparison) mark(cell string) string {
	switch {
	case c.markdown:
		return "**" + cell + "**"
	case c.colours:
		return text.Colors{text.Bold, text.FgGreen}.Sprint(cell + "*")
	}
	return cell + "*"
}

// space keeps figures that are not marked below those that are.
func (c *comparison) space() string {
	if c.markdown || len(c.columns) == 1 {
		return ""
	}
	return " "
}

// planned is the result of the last allocator that had a plan in this row.
func (c *comparison) planned(row comparedRow) (replay.Result, bool) {
	for _, name := range slices.Backward(c.columns) {
		if r := row.results[name]; r.Hits+r.Misses > 0 {
			return r, true
		}
	}
	return replay.Result{}, false
}

// averages is the mean of each column over the recordings that every allocator got
// through, nil if there is none. An allocator that the measure says nothing of does not
// count.
func (c *comparison) averages() table.Row {
	sums, n := make([]float64, len(c.columns)), 0
	for _, row := range c.rows {
		values, whole := make([]float64, len(c.columns)), true
		for i, name := range c.columns {
			var ok bool
			values[i], ok = c.measure.value(row.results[name])
			whole = whole && (ok || !c.measured(name))
		}
		if !whole {
			continue
		}
		n++
		for i, value := range values {
			sums[i] += value
		}
	}
	if n == 0 {
		return nil
	}
	cells := table.Row{fmt.Sprintf("average of %d", n), ""}
	for i, name := range c.columns {
		cell := "-"
		if c.measured(name) {
			cell = c.measure.mean(sums[i] / float64(n))
		}
		cells = append(cells, cell+c.space())
	}
	return cells
}

// measured reports whether the measure says anything of an allocator.
func (c *comparison) measured(allocator string) bool {
	return slices.ContainsFunc(c.rows, func(row comparedRow) bool {
		_, ok := c.measure.value(row.results[allocator])
		return ok
	})
}
