package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"path"
	"strings"

	"stalloc/internal/mem"
)

//go:embed assets
var assets embed.FS

// scripts are the page's own, in the order in which they need each other.
var scripts = []string{"assets/uplot/uPlot.iife.min.js", "assets/data.js", "assets/view.js",
	"assets/curve.js", "assets/space.js", "assets/pointer.js", "assets/map.js", "assets/tables.js", "assets/flame.js", "assets/page.js"}

var styles = []string{"assets/uplot/uPlot.min.css", "assets/page.css"}

var pages = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"percent": func(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) },
	"round":   func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
	"part":    part,
	"count":   grouped,
	"moment":  func(micros int64) string { return fmt.Sprintf("%.3f s", float64(micros)/1e6) },
	"signed":  Signed, "signedShare": SignedShare,
	"bytes": func(n mem.Bytes) int64 { return int64(n) },
}).ParseFS(assets, "assets/document.html", "assets/page.html", "assets/compare.html"))

// document is what every page has around its own part.
type document struct {
	Title, Version string
	Styles         template.CSS
	Scripts        []template.JS
}

// newDocument reads the files that a page needs. version is that of the program that makes it.
func newDocument(title, version string, styles, scripts []string) document {
	d := document{Title: title, Version: version}
	for _, name := range styles {
		d.Styles += template.CSS(asset(name))
	}
	for _, name := range scripts {
		d.Scripts = append(d.Scripts, template.JS(asset(name)))
	}
	return d
}

// page is what the template sees.
type page struct {
	*Data
	Document document
	Packed   template.HTML
	Most     mem.Bytes // of what any allocator reserved
	Least    mem.Bytes
	PeakStep Step
}

// WriteHTML writes the page. version is that of the program that makes it.
func (d *Data) WriteHTML(w io.Writer, version string) error {
	packed, err := d.encode()
	if err != nil {
		return err
	}
	p := page{Data: d, Document: newDocument(d.Name, version, styles, scripts),
		PeakStep: d.Steps[d.Peak.Step], Least: d.Allocators[0].Reserved}
	// Base64 has no character that means anything in HTML.
	p.Packed = template.HTML(`<script id="packed" type="text/plain">` + packed + `</script>`)
	for _, a := range d.Allocators {
		p.Most, p.Least = max(p.Most, a.Reserved), min(p.Least, a.Reserved)
	}
	return pages.Execute(w, p)
}

// asset returns a file that is part of the program.
func asset(name string) string {
	text, err := assets.ReadFile(name)
	if err != nil {
		panic("report: " + name + " is not embedded: " + err.Error())
	}
	return string(text)
}

// part returns a length for CSS: a share of a whole.
func part(of, whole mem.Bytes) template.CSS {
	if whole <= 0 {
		return "0%"
	}
	return template.CSS(fmt.Sprintf("%.3f%%", 100*float64(max(of, 0))/float64(whole)))
}

// grouped writes a count with commas.
func grouped(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Recorded counts the steps; 0 where the recording does not tell them apart.
func (p page) Recorded() (steps int) {
	for _, s := range p.Steps {
		if s.Name != setUp {
			steps++
		}
	}
	if steps == 1 && p.Steps[0].Name == unmarked {
		return 0
	}
	return steps
}

// Wasted is what an allocator reserved at its peak beyond the load's.
func (p page) Wasted(a Allocator) mem.Bytes { return a.Reserved - p.Peak.Load }

// Others says what the other allocators need by one of the two figures, "fits" or "speed",
// for a tile.
func (p page) Others(which string) string {
	fits, speed := p.figures()
	f, text := fits, ""
	if which == "speed" {
		f = speed
	}
	for _, name := range compared[:len(compared)-1] {
		switch {
		case f[name] > 0:
			text += fmt.Sprintf("; %v %s", f[name].Up(), name)
		case f != nil:
			text += "; never " + name
		}
	}
	return text
}

// SteadyShare is the share of the steady part that the driver takes.
func (a Allocator) SteadyShare() float64 { return a.SteadyDriverMillis / max(a.SteadyMillis, 1e-9) }

// Growing is what comes and goes within the step of the peak.
func (p page) Growing() mem.Bytes { return p.Peak.Load - p.Peak.Kept }

// Ours is stalloc's part of a recording.
func (d *Data) Ours() Allocator { return d.Allocators[len(d.Allocators)-1] }

// Hits is the share of all requests that a plan served.
func (p page) Hits() float64 {
	a := p.Ours()
	return float64(a.Hits) / float64(max(a.Requests, 1))
}

// Stack is the text of a group's call stack.
func (p page) Stack(g Group) string {
	if g.Stack < 0 {
		return ""
	}
	return p.Stacks[g.Stack]
}

// frameOf returns the innermost frame of a stack outside PyTorch itself, shortened.
func frameOf(stack string) string {
	frames := strings.Split(stack, "\n")
	best := frames[0]
	for _, f := range frames {
		if !strings.Contains(f, "/torch/") && !strings.HasPrefix(f, "<") &&
			!strings.HasPrefix(f, "??") {
			best = f
			break
		}
	}
	place, function, _ := strings.Cut(best, " ")
	return strings.TrimSpace(path.Base(place) + " " + function)
}

// Span says when something was, as a share of the time from a step's beginning to its end.
func (p page) Span(from, to int) template.CSS {
	s := p.PeakStep
	whole := float64(max(s.End-s.Begin, 1))
	clip := func(event int) float64 { return 100 * min(max(float64(event-s.Begin)/whole, 0), 1) }
	return template.CSS(fmt.Sprintf("left:%.2f%%;width:%.2f%%", clip(from),
		max(clip(to)-clip(from), 0.6)))
}

// RequestedIn names the phase that a group's blocks were requested in, as the groups by phase do.
func (p page) RequestedIn(g Group) string {
	if g.Phase < 0 {
		return "several"
	}
	name := p.Phases[g.Phase]
	if g.To < p.PeakStep.Begin && (name == upToPeak || name == afterPeak) {
		return earlierStep
	}
	return name
}

// When says in words when a group's blocks came and went.
func (p page) When(g Group) string {
	s := p.PeakStep
	came, went := "came in this step", "gone before it ends"
	switch {
	case g.To < s.Begin:
		came = "there before this step"
	case g.From < s.Begin:
		came = "some there before this step"
	}
	switch {
	case g.FreedFrom >= p.Events:
		went = "never freed"
	case g.FreedFrom >= s.End:
		went = "outlives it"
	case g.FreedTo >= s.End:
		went = "some outlive it"
	}
	return came + ", " + went
}
