package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"stalloc/live/page"
)

const topNotes = `load: now; peak: of the load; waste, hits and driver's share of the time in %
native: memory in which PyTorch's own allocator would run at full speed
`

// topLine is what a row shows of a device.
type topLine struct {
	process  *page.Process
	device   page.Device
	rates    page.Rates
	capacity uint64
}

// topOrders are what rows can be sorted by, the first by default.
var topOrders = []struct {
	name    string
	compare func(a, b topLine) int
}{
	{"pid", func(a, b topLine) int {
		return cmp.Or(cmp.Compare(a.process.PID, b.process.PID),
			cmp.Compare(a.device.Ordinal, b.device.Ordinal))
	}},
	{"load", func(a, b topLine) int {
		return cmp.Compare(b.device.Now.PeakAllocated,
			a.device.Now.PeakAllocated)
	}},
	{"reserved", func(a, b topLine) int {
		return cmp.Compare(b.device.Now.Reserved,
			a.device.Now.Reserved)
	}},
	{"waste", func(a, b topLine) int {
		return cmp.Compare(b.device.Now.Waste(),
			a.device.Now.Waste())
	}},
	{"driver", func(a, b topLine) int { return cmp.Compare(b.rates.Driver, a.rates.Driver) }},
	{"step", func(a, b topLine) int { return cmp.Compare(b.rates.Step, a.rates.Step) }},
}

func orderNames() (names []string) {
	for _, o := range topOrders {
		names = append(names, o.name)
	}
	return names
}

func nextOrder(name string) string {
	names := orderNames()
	return names[(slices.Index(names, name)+1)%len(names)]
}

// table has a row for each device of each process. Rates are those since the samples in
// earlier, which it renews, else those that the page itself tells. width is the terminal's, 0: any.
func (f *topFlags) table(processes []page.Process, earlier map[string]page.Sample,
	width int) table.Writer {
	var lines []topLine
	for i := range processes {
		p := &processes[i]
		for _, d := range p.Devices {
			key := fmt.Sprintf("%s %d", p.Path, d.Ordinal)
			before := d.Before
			if last, ok := earlier[key]; ok && d.Now.At.After(last.At) {
				before = last
			}
			if earlier != nil && d.Now.At.Sub(earlier[key].At) >= time.Second {
				earlier[key] = d.Now
			}
			lines = append(lines, topLine{p, d, page.Between(before, d.Now),
				p.Capacity(f.gpus, d.Ordinal)})
		}
	}
	for _, order := range topOrders {
		if order.name == f.sort {
			slices.SortStableFunc(lines, order.compare)
		}
	}
	rows := make([]table.Row, len(lines))
	for i, l := range lines {
		rows[i] = l.row()
	}
	return fitting(width, rows)
}

// topColumns are the table's, and topOptional those that a narrow terminal does without, the first
// one first: a line that wraps cannot be read.
var (
	topColumns = []string{
		"pid", "program", "gpu", "load", "peak", "reserved", "of", "waste", "native", "hits",
		"driver", "step", "plan",
	}
	topOptional = []string{"plan", "of", "native", "hits", "driver", "peak"}
)

// fitting is the table of rows, of as many columns as a width has room for; 0: of all.
func fitting(width int, rows []table.Row) table.Writer {
	for dropped := 0; ; dropped++ {
		of := func(row []any) (some table.Row) {
			for i, name := range topColumns {
				if !slices.Contains(topOptional[:dropped], name) {
					some = append(some, row[i])
				}
			}
			return some
		}
		var names []any
		for _, name := range topColumns {
			names = append(names, name)
		}
		t := newTable(2, of(names)...)
		for _, row := range rows {
			t.AppendRow(of(row))
		}
		header, _, _ := strings.Cut(t.Render(), "\n─")
		_, line, _ := strings.Cut(t.Render(), "─")
		line, _, _ = strings.Cut(line, "\n")
		if fits := max(text.StringWidth(header), 1+text.StringWidth(line)) <= width; width == 0 ||
			fits || dropped == len(topOptional) {
			return t
		}
	}
}

func (l topLine) row() table.Row {
	program := text.Snip(shortCommand(l.process.Command()), 12, "~")
	if rank := l.process.Rank(); rank != "" {
		program = text.Snip(program, 9, "~") + " r" + rank
	}
	now, r := l.device.Now, l.rates
	capacity, native, hits, driver, step := "-", "-", "-", "-", "-"
	if l.capacity > 0 {
		capacity = amount(float64(l.capacity))
	}
	switch {
	case now.NativeOOMs > 0:
		native = "full" // the device, under native
	case now.NativePeakReserved > 0:
		native = amount(float64(now.NativePeakReserved))
	}
	if r.Requests > 0 && now.PlanGeneration > 0 {
		hits = fmt.Sprintf("%.1f", 100*r.HitShare)
	}
	if r.Elapsed > 0 {
		driver = fmt.Sprintf("%.1f", 100*r.Driver)
	}
	if r.Step > 0 {
		step = stepText(r.Step)
	}
	if age := time.Since(now.At); age > 10*time.Second {
		hits, driver, step = "-", "-", "idle "+age.Truncate(time.Second).String()
	}
	plan := "none"
	switch {
	case now.Fallback > 0:
		plan = "plain" // driver allocations serve
	case now.PlanGeneration > 0:
		plan = fmt.Sprintf("#%d", now.PlanGeneration)
	}
	return table.Row{
		l.process.PID, program, l.device.Ordinal, amount(float64(now.Allocated)),
		amount(float64(now.PeakAllocated)),
		amount(float64(now.Reserved)), capacity,
		fmt.Sprintf("%.1f", 100*now.Waste()), native, hits, driver, step, plan,
	}
}

// stepText is the time of a step in three digits: 11.2ms, 1.23s, 1234s.
func stepText(step time.Duration) string {
	switch {
	case step < 999500*time.Microsecond: // else it would be 1e+03ms
		return fmt.Sprintf("%.3gms", float64(step.Microseconds())/1e3)
	case step < 999500*time.Millisecond:
		return fmt.Sprintf("%.3gs", step.Seconds())
	}
	return fmt.Sprintf("%.0fs", step.Seconds())
}

// shortCommand is the script that an interpreter runs, or the program.
func shortCommand(command string) string {
	words := strings.Fields(command)
	for _, w := range words {
		if strings.HasSuffix(w, ".py") {
			return filepath.Base(w)
		}
	}
	for i, w := range words {
		if w == "-m" && i+1 < len(words) {
			return words[i+1]
		}
	}
	if len(words) == 0 {
		return "?"
	}
	return filepath.Base(words[0])
}
