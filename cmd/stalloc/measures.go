package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"stalloc/internal/mem"
	"stalloc/replay"
)

// measure is what the cells of a comparison show: one figure of each result.
type measure struct {
	name  string
	note  string // what the figures are, in a line
	value func(replay.Result) (float64, bool)
	cell  func(float64) string
	mean  func(float64) string       // nil: an average says nothing
	most  bool                       // the best is the largest
	none  func(replay.Result) string // nil, or what to print where there is no figure
}

func percent(x float64) string { return fmt.Sprintf("%.2f", 100*x) }

// amount prints four digits, which is all that a column has room for.
func amount(x float64) string {
	number, unit, _ := strings.Cut(mem.Bytes(x).String(), " ")
	return strings.TrimSuffix(number[:min(len(number), 5)], ".") + " " + unit
}

// least is amount for one that suffices: what is cut off is rounded up.
func least(x float64) string {
	number, unit, _ := strings.Cut(mem.Bytes(x).Up().String(), " ")
	if more := len(number) - 5; more > 0 {
		scale := math.Pow10(max(2-more, 0))
		f, _ := strconv.ParseFloat(number, 64)
		number = strconv.FormatFloat(math.Ceil(f*scale)/scale, 'f', max(2-more, 0), 64)
	}
	return number + " " + unit
}

// measures are what --show can name, the default first.
var measures = []measure{
	{name: "waste", note: "waste: 1 - peak load / peak reserved, in %",
		value: func(r replay.Result) (float64, bool) {
			return r.Fragmentation,
				whole(r)
		}, cell: percent, mean: percent},
	{name: "reserved", note: "reserved: the most device memory that was held at once",
		value: func(r replay.Result) (float64, bool) {
			return float64(r.PeakReserved),
				whole(r)
		}, cell: amount},
	{name: "driver", note: "driver: modelled time of its calls, in % of the steady part",
		value: func(r replay.Result) (float64, bool) {
			return r.SteadyDriverTimeUS / float64(max(r.SteadyTimeUS, 1)), whole(r) &&
				r.SteadyTimeUS > 0
		}, cell: percent, mean: percent},
	{name: "hits", note: "hits: requests that a plan served, in % of all requests",
		value: func(r replay.Result) (float64, bool) {
			return hitShare(r),
				whole(r) && r.Hits+r.Misses > 0
		}, cell: percent, mean: percent, most: true},
	{name: "fits", note: "fits in: the smallest device that the run does not fill",
		value: func(r replay.Result) (float64, bool) {
			return float64(r.FitsIn),
				r.FitsIn > 0
		}, cell: least},
	{name: "speed", note: "at full speed in: the smallest on which calls of the driver also take at most\n1 % of the steady part, and no request in it is tried again",
		value: func(r replay.Result) (float64, bool) {
			return float64(r.FullSpeedIn),
				r.FullSpeedIn > 0
		}, cell: least,
		none: func(r replay.Result) string {
			if r.FitsIn > 0 && r.SteadyTimeUS > 0 {
				return "never"
			}
			return "-"
		}},
}

// needsSmallest are the measures that --smallest finds.
var needsSmallest = []string{"fits", "speed"}

// whole reports whether there is a result, and of all of the recording.
func whole(r replay.Result) bool { return r.Requests > 0 && !r.OOM }

func hitShare(r replay.Result) float64 { return float64(r.Hits) / float64(max(r.Requests, 1)) }

func findMeasure(name string) (measure, error) {
	for _, m := range measures {
		if m.name == name {
			return m, nil
		}
	}
	return measure{}, fmt.Errorf("--show %q: choose from %s", name,
		strings.Join(measureNames(), ", "))
}

func measureNames() []string {
	var names []string
	for _, m := range measures {
		names = append(names, m.name)
	}
	return names
}

// wideTable has a row for every result, with all figures.
type wideTable struct {
	smallest bool
	t        table.Writer
	trace    string
}

func (w *wideTable) add(r replay.Result) {
	if w.t == nil {
		header := []any{"recording", "allocator", "mode", "requests", "hits", "peak load",
			"peak reserved", "waste", "calls", "steady", "driver time", "steady time"}
		if w.smallest {
			header = append(header, "fits in", "at full speed in")
		}
		w.t = newTable(3, header...)
	} else if w.trace != r.Trace {
		w.t.AppendSeparator()
	}
	w.trace = r.Trace
	w.t.AppendRow(replayRow(r))
}

func (w *wideTable) tables(bool) []drawn { return []drawn{{w.t, ""}} }

func replayRow(r replay.Result) table.Row {
	hits := "-"
	if r.Hits+r.Misses > 0 {
		hits = fmt.Sprintf("%.2f %%", 100*hitShare(r))
	}
	steady := "-"
	if r.SteadyTimeUS > 0 {
		steady = fmt.Sprintf("%.2f %%", 100*r.SteadyDriverTimeUS/float64(r.SteadyTimeUS))
	}
	reserved := r.PeakReserved.String()
	if r.OOM {
		reserved = "full at " + reserved
	}
	row := table.Row{
		r.Trace, r.Allocator, r.Mode, r.Requests, hits, r.PeakLoad, reserved,
		fmt.Sprintf("%.2f %%", 100*r.Fragmentation), r.DriverCalls, r.SteadyDriverCalls,
		fmt.Sprintf("%.1f ms", r.DriverTimeUS/1e3), steady,
	}
	if r.FitsIn > 0 {
		row = append(row, r.FitsIn.Up(), "-")
		if r.FullSpeedIn > 0 {
			row[len(row)-1] = r.FullSpeedIn.Up()
		}
	}
	return row
}
