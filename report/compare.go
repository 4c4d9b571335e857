package report

import (
	"fmt"
	"io"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Comparison is two recordings of a program on one page, before a change and after it.
type Comparison struct {
	Diffs []*Diff // by one way to group and another; the first is shown first
}

// Compare compares two recordings at their peaks, by every way to group that both allow. It fails
// as NewDiff does.
func Compare(base, changed *trace.Trace) (*Comparison, error) {
	ways := []string{ByShape, ByPhase}
	if base.Stacks != nil && changed.Stacks != nil {
		ways = Groupings
	}
	c := &Comparison{}
	for _, way := range ways {
		d, err := NewDiff(base, changed, way, -1)
		if err != nil {
			return nil, err
		}
		c.Diffs = append(c.Diffs, d)
	}
	return c, nil
}

// comparePage is what the template sees: the figures of the first Diff are those of all.
type comparePage struct {
	*Comparison
	*Diff
	Document document
	Highest  mem.Bytes // peak of any step
}

// WriteHTML writes the page. version is that of the program that makes it.
func (c *Comparison) WriteHTML(w io.Writer, version string) error {
	p := comparePage{Comparison: c, Diff: c.Diffs[0]}
	title := p.Base.Name + " → " + p.New.Name
	p.Document = newDocument(title, version, []string{"assets/page.css"},
		[]string{"assets/data.js", "assets/tables.js", "assets/compare.js"})
	for _, s := range p.Steps {
		p.Highest = max(p.Highest, s.Base, s.New)
	}
	return pages.ExecuteTemplate(w, "compare.html", p)
}

// Verdict says in a sentence what the change did, and where most of it is.
func (d *Diff) Verdict() string {
	if d.Change == 0 {
		return fmt.Sprintf("The peak is the same in both: %v.", d.New.Load)
	}
	way := "rose"
	if d.Change < 0 {
		way = "fell"
	}
	text := fmt.Sprintf("The peak %s by %v (%s), from %v to %v.", way, abs(d.Change),
		SignedShare(d.Share), d.Base.Load, d.New.Load)
	for _, g := range d.Groups { // the largest change that goes the same way
		if (g.Change > 0) == (d.Change > 0) && g.Change != 0 {
			what := g.What
			if d.By == ByShape {
				what = "blocks of " + what
			}
			return text + fmt.Sprintf(" The largest part: %s, %s.", what, Signed(g.Change))
		}
	}
	return text
}

// Signed is a change with its sign: "+1.50 GiB".
func Signed(n mem.Bytes) string {
	switch {
	case n > 0:
		return "+" + n.String()
	case n == 0:
		return "="
	}
	return n.String()
}

// SignedShare writes a change as a share, with its sign.
func SignedShare(share float64) string { return fmt.Sprintf("%+.2f %%", 100*share) }

// Changed are the groups of a Diff that are not the same in both, no more than a page lists.
func (d *Diff) Changed() []DiffGroup {
	n := 0
	for n < len(d.Groups) && n < mostGroups && d.Groups[n].Change != 0 {
		n++
	}
	return d.Groups[:n]
}

// Unchanged counts the others.
func (d *Diff) Unchanged() int { return len(d.Groups) - len(d.Changed()) }
