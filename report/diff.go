package report

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// DiffVersion is that of Diff's JSON: a key that changes its meaning, or goes, raises it.
const DiffVersion = 1

// What live blocks are grouped by in a Diff.
const (
	ByStack = "stack" // the call stack of the request, without numbers of lines
	ByShape = "shape" // the bytes that were asked for
	ByPhase = "phase" // the part of the step that the request came in
)

// Groupings are what a Diff can group by.
var Groupings = []string{ByStack, ByShape, ByPhase}

// Diff is what changed in memory between two recordings: at the peak, by groups of blocks, and
// in the peak of every step. Nothing is replayed: it is of what the program asked for.
type Diff struct {
	Version int         `json:"version"`
	By      string      `json:"by"`
	Base    DiffRun     `json:"base"`
	New     DiffRun     `json:"new"`
	Change  mem.Bytes   `json:"change_bytes"`
	Share   float64     `json:"change_share"`
	Groups  []DiffGroup `json:"groups"`
	Steps   []DiffStep  `json:"steps"`
}

// DiffRun is one of the two, at its peak.
type DiffRun struct {
	Name   string    `json:"name"`
	Step   string    `json:"step"` // that the peak is in
	Load   mem.Bytes `json:"peak_load_bytes"`
	Blocks int       `json:"blocks"` // live then
	Lost   string    `json:"lost,omitempty"`
}

// DiffGroup is the blocks of a kind that were live at the two peaks.
type DiffGroup struct {
	What       string    `json:"what"`
	Stack      string    `json:"stack,omitempty"` // a frame a line, the innermost first
	Base       mem.Bytes `json:"base_bytes"`
	New        mem.Bytes `json:"new_bytes"`
	Change     mem.Bytes `json:"change_bytes"`
	BaseBlocks int       `json:"base_blocks"`
	NewBlocks  int       `json:"new_blocks"`
}

// DiffStep is the peak of a step in both runs; zero in one that has no such step.
type DiffStep struct {
	Name   string    `json:"name"`
	Base   mem.Bytes `json:"base_bytes"`
	New    mem.Bytes `json:"new_bytes"`
	Change mem.Bytes `json:"change_bytes"`
}

// NewDiff compares two recordings, grouped by one of Groupings; "" is by stack where both have
// stacks, and by shape elsewhere. step is the number of the step, from 0 and without set-up, at
// whose peak blocks are compared; negative for the peak of all. Groups come with the largest
// change first. It fails for a recording without requests, a step that there is not and stacks
// that a recording does not have.
func NewDiff(base, changed *trace.Trace, by string, step int) (*Diff, error) {
	if by == "" {
		if by = ByShape; base.Stacks != nil && changed.Stacks != nil {
			by = ByStack
		}
	}
	d := &Diff{Version: DiffVersion, By: by}
	groups := make(map[string]*DiffGroup)
	var ledgers [2]*ledger
	for i, tr := range []*trace.Trace{base, changed} {
		if by == ByStack && tr.Stacks == nil {
			return nil, fmt.Errorf("%s has no stacks: group by %s or %s, or record with --stacks",
				tr.Name, ByShape, ByPhase)
		}
		l := newLedger(tr)
		if len(l.blocks) == 0 {
			return nil, fmt.Errorf("%s holds no request for memory: record a run that makes some",
				tr.Name)
		}
		at, err := l.momentOf(step, tr.Name)
		if err != nil {
			return nil, err
		}
		run := DiffRun{Name: tr.Name, Step: l.steps[l.stepAt(at)].Name, Load: l.load[at],
			Lost: lost(tr.Skipped)}
		run.Blocks = l.gather(tr, by, at, i == 0, groups)
		if ledgers[i] = l; i == 0 {
			d.Base = run
		} else {
			d.New = run
		}
	}
	d.Change = d.New.Load - d.Base.Load
	d.Share = float64(d.Change) / float64(max(d.Base.Load, 1))
	d.Groups = make([]DiffGroup, 0, len(groups))
	for _, g := range groups {
		g.Change = g.New - g.Base
		d.Groups = append(d.Groups, *g)
	}
	slices.SortFunc(d.Groups, func(a, b DiffGroup) int {
		return cmp.Or(cmp.Compare(abs(b.Change), abs(a.Change)), cmp.Compare(b.New, a.New),
			cmp.Compare(a.What, b.What), cmp.Compare(a.Stack, b.Stack))
	})
	d.Steps = pairSteps(ledgers[0].steps, ledgers[1].steps)
	return d, nil
}

func abs(n mem.Bytes) mem.Bytes { return max(n, -n) }

// momentOf is the event of a step's peak, or of that of all.
func (l *ledger) momentOf(step int, name string) (int, error) {
	if step < 0 {
		return l.peak, nil
	}
	for i := range l.steps {
		s := &l.steps[i]
		if s.Name == setUp {
			continue
		}
		if step--; step < 0 {
			return s.peakAt, nil
		}
	}
	return 0, fmt.Errorf("%s has no such step: it has %d, the first is 0", name,
		len(l.steps)-countSetUp(l.steps))
}

func countSetUp(steps []Step) int {
	if len(steps) > 0 && steps[0].Name == setUp {
		return 1
	}
	return 0
}

// gather adds the blocks that are live after an event to their groups, and counts them.
func (l *ledger) gather(tr *trace.Trace, by string, at int, base bool,
	groups map[string]*DiffGroup) (blocks int) {
	keys := make(map[int]string) // of stacks
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin > at || b.freed <= at {
			continue
		}
		blocks++
		what, key, stack := "", "", ""
		switch by {
		case ByPhase:
			what = l.phases[b.phase]
			key = what
		case ByShape:
			what = b.size.String()
			key = fmt.Sprint(int64(b.size))
		default:
			n := tr.Stacks.Of(b.id)
			if what = "no Python frame, as in backward"; n >= 0 {
				stack = tr.Stacks.Texts()[n]
				what = frameOf(stack) + inside(stack)
				if _, ok := keys[n]; !ok {
					keys[n] = withoutLines(stack)
				}
				key = keys[n]
			}
		}
		g := groups[key]
		if g == nil {
			g = &DiffGroup{}
			groups[key] = g
		}
		g.What, g.Stack = what, stack // of the new run where both have it
		if size := mem.Round(b.size); base {
			g.Base, g.BaseBlocks = g.Base+size, g.BaseBlocks+1
		} else {
			g.New, g.NewBlocks = g.New+size, g.NewBlocks+1
		}
	}
	return blocks
}

// inside tells apart what a line of the program asks PyTorch for: " (linear)", the innermost
// layer's file or function; nothing where the line asks itself.
func inside(stack string) string {
	innermost, _, _ := strings.Cut(stack, "\n")
	parts := withLine.FindStringSubmatch(innermost)
	if parts == nil || !strings.Contains(parts[1], "/torch/") {
		return ""
	}
	if name := parts[2]; name != "forward" && !strings.HasPrefix(name, "_") {
		return " (" + name + ")"
	}
	return " (" + strings.TrimSuffix(path.Base(parts[1]), ".py") + ")"
}

var withLine = regexp.MustCompile(`^(.*?):[0-9]+ (.*)$`)

// withoutLines is what two versions of a program have in common of a stack: the name of each
// frame's file and its function. A change moves lines, and checkouts lie in other folders.
func withoutLines(stack string) string {
	var b strings.Builder
	for frame := range strings.SplitSeq(stack, "\n") {
		if parts := withLine.FindStringSubmatch(frame); parts != nil {
			frame = path.Base(parts[1]) + " " + parts[2]
		}
		b.WriteString(frame + "\n")
	}
	return b.String()
}

// pairSteps puts the steps of two runs side by side, in their order, set-up beside set-up.
func pairSteps(base, changed []Step) []DiffStep {
	pairs := []DiffStep{}
	if countSetUp(base) > countSetUp(changed) {
		changed = append([]Step{{Name: setUp}}, changed...)
	} else if countSetUp(base) < countSetUp(changed) {
		base = append([]Step{{Name: setUp}}, base...)
	}
	for i := range max(len(base), len(changed)) {
		var p DiffStep
		if i < len(base) {
			p.Name, p.Base = base[i].Name, base[i].Peak
		}
		if i < len(changed) {
			if p.New = changed[i].Peak; p.Name == "" {
				p.Name = changed[i].Name
			}
		}
		p.Change = p.New - p.Base
		pairs = append(pairs, p)
	}
	return pairs
}
