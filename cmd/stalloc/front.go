package main

import (
	"fmt"
	"io"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"stalloc/internal/mem"
	"stalloc/plan/solve"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/pareto"
)

// frontResult is a point of a front.
type frontResult struct {
	versioned
	Problem string  `json:"problem"`
	Point   int     `json:"point"`
	Memory  float64 `json:"memory"`
	Handles float64 `json:"handles"`
	Moved   float64 `json:"moved"`
	Late    float64 `json:"late"`
	// Disturbed is how much above the load replays end, by disturbance.
	Disturbed map[string]float64 `json:"disturbed"`
}

// descentsOf is how many descents a front is looked for with.
const descentsOf = 400

// front prints the front of a problem, and the share of space that each search's dominates.
func (r *solving) front(name string, p *solve.Problem) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch in := dsa.Compress(p); {
	case len(in.IDs) == 0:
		return fmt.Errorf("%s: none of its buffers takes memory: give one a size, and a life that ends after its start", name)
	case !in.Plain():
		return fmt.Errorf("%s: a front is one of buffers without gaps, pins and alignment: leave them or --pareto out", name)
	}
	if r.table == nil {
		head := table.Row{"problem", "", "memory", "handles", "moved", "late"}
		for _, by := range pareto.Disturbances {
			head = append(head, by.Name)
		}
		r.table = newTable(2, append(head, "hypervolume")...)
	}
	var fronts [][]pareto.Point
	worst := pareto.Values{}
	for _, search := range pareto.Searches {
		r.s.progress.begin(name + ", " + search.Name)
		front := pareto.Front(search.Run(p, descentsOf, r.f.seed))
		for _, x := range front {
			for k := range worst {
				worst[k] = max(worst[k], x.Values[k]*1.1+1e-6)
			}
		}
		fronts = append(fronts, front)
		if r.s.ctx.Err() != nil {
			return nil
		}
	}
	for i, search := range pareto.Searches {
		row := table.Row{text.Snip(name, longest, "~"), fmt.Sprintf("%s, %d points", search.Name,
			len(fronts[i])), "", "", "", ""}
		for range pareto.Disturbances {
			row = append(row, "")
		}
		r.table.AppendRow(append(row, fmt.Sprintf("%.4f", pareto.Hypervolume(fronts[i], worst))))
	}
	disturbed := make([]map[string]float64, len(fronts[0]))
	rows := make([]table.Row, len(fronts[0]))
	for i, x := range fronts[0] {
		disturbed[i] = map[string]float64{}
		rows[i] = table.Row{"", fmt.Sprintf("point %d", i)}
		for _, v := range x.Values {
			rows[i] = append(rows[i], shareOf(v))
		}
	}
	for _, by := range pareto.Disturbances {
		r.s.progress.begin(name + ", replays with " + by.Name)
		for i, above := range pareto.Disturbed(p, fronts[0], by, r.f.seed) {
			disturbed[i][by.Name] = above
			rows[i] = append(rows[i], shareOf(above))
		}
	}
	for i, x := range fronts[0] {
		v := x.Values
		r.s.emit(frontResult{formatVersion, name, i, v[0], v[1], v[2], v[3], disturbed[i]})
		r.table.AppendRow(append(rows[i], ""))
	}
	values := make([][]float64, len(fronts[0]))
	for i, x := range fronts[0] {
		values[i] = x.Values[:]
	}
	return r.draw(func(w io.Writer) error { return drawFront(w, pareto.Names[:], values, shareOf) })
}

func shareOf(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

const svgWidth, svgHeight = 1200.0, 700.0

// painted is an SVG being written; it keeps the first error.
type painted struct {
	to  io.Writer
	err error
}

func (p *painted) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format, args...)
	}
}

// drawPlacement draws each buffer as a rectangle, time from left to right and offsets upward. What
// would be smaller than a quarter of a pixel is left out.
func drawPlacement(w io.Writer, p *solve.Problem, offsets []mem.Offset, top mem.Bytes) error {
	begin, end := mem.Tick(math.MaxInt64), mem.Tick(math.MinInt64)
	for _, b := range p.Buffers {
		if !b.Empty() {
			begin, end = min(begin, b.Lower), max(end, b.Upper)
		}
	}
	out := &painted{to: w}
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", svgWidth, svgHeight)
	x := func(t mem.Tick) float64 {
		return float64(t-begin) / float64(max(end-begin,
			1)) * svgWidth
	}
	y := func(at mem.Bytes) float64 {
		return svgHeight - float64(at)/float64(max(top,
			1))*svgHeight
	}
	for i, b := range p.Buffers {
		from := mem.Bytes(offsets[i])
		width, height := x(b.Upper)-x(b.Lower), y(from)-y(from+b.Size)
		if b.Empty() || width < 0.25 || height < 0.25 {
			continue
		}
		hue := uint64(b.Size) * 0x9e3779b97f4a7c15 >> 32 % 360
		out.printf(`<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="hsl(%d 45%% 65%%)" stroke="#fff" stroke-width="0.2"><title>%d: %d at %d, [%d, %d)</title></rect>`+"\n",
			x(b.Lower), y(from+b.Size), width, height, hue, i, int64(b.Size), int64(from), b.Lower,
			b.Upper)
	}
	out.printf("</svg>\n")
	return out.err
}

// drawFront draws each point as a line across one axis for each objective.
func drawFront(w io.Writer, names []string, front [][]float64, label func(float64) string) error {
	out := &painted{to: w}
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="18"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", svgWidth, svgHeight)
	most := make([]float64, len(names))
	for _, p := range front {
		for k, v := range p {
			most[k] = max(most[k], v)
		}
	}
	const margin = 80.0
	x := func(k int) float64 {
		return margin +
			float64(k)*(svgWidth-2*margin)/float64(len(names)-1)
	}
	y := func(k int, v float64) float64 {
		return svgHeight - margin - v/max(most[k], 1e-12)*(svgHeight-2*margin)
	}
	for k, name := range names {
		out.printf(`<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="#999"/><text x="%.1f" y="%g" text-anchor="middle">%s</text><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n",
			x(k), x(k), margin, svgHeight-margin, x(k), svgHeight-margin/3, name, x(k), margin/2,
			label(most[k]))
	}
	for i, p := range front {
		out.printf(`<polyline fill="none" stroke="hsl(%d 60%% 45%%)" stroke-width="2" points="`,
			360*i/max(len(front), 1))
		for k, v := range p {
			out.printf("%.1f,%.1f ", x(k), y(k, v))
		}
		out.printf(`"><title>point %d</title></polyline>`+"\n", i)
	}
	out.printf("</svg>\n")
	return out.err
}
