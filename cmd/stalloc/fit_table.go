package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"stalloc/internal/mem"
)

// fitResult is one of the two figures of an allocator.
type fitResult struct {
	versioned
	Allocator  string    `json:"allocator"`
	Figure     string    `json:"figure"`
	Method     string    `json:"method"`
	Capacity   mem.Bytes `json:"capacity_bytes"`
	Largest    int64     `json:"largest"`
	Low        int64     `json:"low"`
	High       int64     `json:"high"`
	Fixed      mem.Bytes `json:"fixed_bytes"`
	Each       mem.Bytes `json:"each_bytes"`
	Off        mem.Bytes `json:"off_bytes"`
	Checked    bool      `json:"checked"`
	CannotTell string    `json:"cannot_tell,omitempty"`

	Offload []offloadResult `json:"offload,omitempty"` // of each recording
}

// The figures, and the allocator that there is none of: memory for live tensors alone.
const (
	figureFits  = "fits"
	figureSpeed = "full_speed"
	liveTensors = "live tensors"

	methodReplay = "replay" // runs of other sizes are made up, and replayed
	methodLine   = "line"   // through what the recordings need
)

// table has an allocator a row, and below it what cannot be told.
func (f *fitFlags) table(results []fitResult, byLine error) (table.Writer, string) {
	t := newTable(1, "largest size in "+mem.Bytes(f.capacity).String(), "fits", "range",
		"full speed", "range", "fixed", "each")
	notes, checked := "", true
	for i := 0; i < len(results); i++ {
		r := results[i]
		row := append(table.Row{r.Allocator}, r.cells()...)
		if i+1 < len(results) && results[i+1].Allocator == r.Allocator {
			i++
			row = append(row, results[i].cells()...)
		} else {
			row = append(row, "", "")
		}
		if r.CannotTell == "" && r.Each > 0 {
			row = append(row, r.Fixed, r.Each)
		}
		checked = checked && (r.Checked || r.CannotTell != "")
		t.AppendRow(row)
	}
	for _, r := range results {
		if r.CannotTell != "" {
			notes += fmt.Sprintf("?: %s, %s: %s\n", r.Allocator, strings.ReplaceAll(r.Figure, "_",
				" "), r.CannotTell)
		}
	}
	for _, r := range results {
		notes += r.notes()
	}
	notes += "fixed and each: memory that does not grow, and for each unit of size, to fit\n"
	if byLine != nil {
		notes += fmt.Sprintf("allocators are told of by a line, less surely, since %v\n", byLine)
	}
	if !checked {
		notes += "two sizes do not tell whether memory grows in a line: a third one does, and how far\noff it may be; the range is of the searches alone\n"
	}
	return t, notes
}

// cells are the size and its range.
func (r fitResult) cells() []any {
	switch {
	case r.CannotTell != "":
		return []any{"?", ""}
	case r.Low == r.High:
		return []any{r.Largest, ""}
	}
	return []any{r.Largest, fmt.Sprintf("%d to %d", r.Low, r.High)}
}
