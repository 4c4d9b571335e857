package report

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// What the page groups the blocks at the peak by, beside ByShape and ByPhase.
const (
	ByFrame  = "frame"  // the innermost line of the program, outside PyTorch
	ByModule = "module" // the innermost layer of torch.nn, or the program's own forward()
)

// Grouping is the blocks that were live at the peak, in groups.
type Grouping struct {
	By     string  `json:"by"`
	Groups []Group `json:"groups"` // the largest first
	Others Group   `json:"others"` // what is in none of them
}

// Group is some blocks that were live at the peak.
type Group struct {
	What  string    `json:"what"`  // the frame, the module, the size of each, or the phase
	Size  mem.Bytes `json:"size"`  // of each, as asked for; 0 where they differ
	Count int       `json:"count"` // blocks
	Bytes mem.Bytes `json:"bytes"` // of all
	Phase int       `json:"phase"` // -1 where they differ
	Stack int       `json:"stack"` // of the first; -1 where the recording has no frames
	Kept  bool      `json:"kept"`
	// From and To span the requests of its blocks, FreedFrom and FreedTo their frees, by
	// events; a block that is never freed ends with the recording.
	From      int `json:"from"`
	To        int `json:"to"`
	FreedFrom int `json:"freed_from"`
	FreedTo   int `json:"freed_to"`
}

// mostGroups bounds a table: what is in none of its rows is one more.
const mostGroups = 200

// group groups live blocks. Those that outlive the step are in groups of their own.
func (l *ledger) group(stacks *trace.Stacks, live []*block, step Step, way string) Grouping {
	type key struct {
		what  string
		size  mem.Bytes
		phase int
		kept  bool
	}
	names := namer(stacks, way)
	groups := make(map[key]*Group)
	for _, b := range live {
		k := key{kept: l.outlives(b, step)}
		switch way {
		case ByShape:
			k.what, k.size, k.phase = b.size.String(), b.size, b.phase
		case ByPhase:
			k.what = l.phases[b.phase]
			if b.begin < step.Begin && (k.what == upToPeak || k.what == afterPeak) {
				k.what = earlierStep // whose peak that was says nothing here
			}
		default:
			k.what = names(stacks.Of(b.id))
		}
		g := groups[k]
		if g == nil {
			g = &Group{What: k.what, Size: b.size, Phase: b.phase, Stack: stacks.Of(b.id),
				Kept: k.kept, From: b.begin, FreedFrom: b.end}
			groups[k] = g
		}
		g.add(b)
	}
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.From, b.From),
			cmp.Compare(a.What, b.What))
	})
	of := Grouping{By: way, Groups: all[:min(len(all), mostGroups)]}
	for _, g := range all[len(of.Groups):] {
		of.Others.Count += g.Count
		of.Others.Bytes += g.Bytes
	}
	return of
}

// add counts a block.
func (g *Group) add(b *block) {
	if g.Size != b.size {
		g.Size = 0
	}
	if g.Phase != b.phase {
		g.Phase = -1
	}
	g.Count++
	g.Bytes += mem.Round(b.size)
	g.From, g.To = min(g.From, b.begin), max(g.To, b.begin)
	g.FreedFrom, g.FreedTo = min(g.FreedFrom, b.end), max(g.FreedTo, b.end)
}

// namer names stacks by their numbers, each once.
func namer(stacks *trace.Stacks, way string) func(stack int) string {
	known := make(map[int]string)
	return func(stack int) string {
		if stack < 0 {
			return "no Python frame, as in backward"
		}
		name, ok := known[stack]
		if !ok {
			if name = frameOf(stacks.Texts()[stack]); way == ByModule {
				name = moduleOf(stacks.Texts()[stack])
			}
			known[stack] = name
		}
		return name
	}
}

// noModule is what backward and the optimizer are in.
const noModule = "in no forward()"

// moduleOf names the module whose forward() a stack is in: of PyTorch's own layers the file, such
// as linear; of others the file.
func moduleOf(stack string) string {
	for frame := range strings.SplitSeq(stack, "\n") {
		place, function, _ := strings.Cut(frame, " ")
		if colon := strings.LastIndexByte(place, ':'); colon > 0 {
			place = place[:colon]
		}
		file := path.Base(place)
		switch {
		case function != "forward" || file == "container.py":
		case strings.Contains(place, "/torch/nn/modules/"):
			return "torch.nn " + strings.TrimSuffix(file, ".py")
		case !strings.Contains(place, "/torch/"):
			return file + " forward"
		}
	}
	return noModule
}

// stackParts adds live blocks up by their stacks.
func stackParts(stacks *trace.Stacks, live []*block) []StackPart {
	parts := make(map[int]*StackPart)
	for _, b := range live {
		n := stacks.Of(b.id)
		if parts[n] == nil {
			parts[n] = &StackPart{Stack: n}
		}
		parts[n].Bytes += mem.Round(b.size)
		parts[n].Count++
	}
	all := make([]StackPart, 0, len(parts))
	for _, p := range parts {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b StackPart) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Stack, b.Stack))
	})
	return all
}
