package report

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Peak is what was live when the load was the largest.
type Peak struct {
	Event  int       `json:"event"`
	Step   int       `json:"step"`
	Micros int64     `json:"micros"`
	Load   mem.Bytes `json:"load"`
	// Kept is what was there before the step or stays behind it: weights, the optimizer's
	// state. The rest comes and goes within the step, and grows with the batch.
	Kept   mem.Bytes `json:"kept"`
	Blocks int       `json:"blocks"`
	Groups []Group   `json:"groups"` // the largest first
	Others Group     `json:"others"` // what is in none of them
}

// Group is the blocks of one size that were live at the peak, requested in one phase from
// one place in the program.
type Group struct {
	Size  mem.Bytes `json:"size"` // of each, as asked for
	Count int       `json:"count"`
	Bytes mem.Bytes `json:"bytes"` // of all
	Phase int       `json:"phase"`
	Stack int       `json:"stack"` // -1 where the recording has no frames
	Kept  bool      `json:"kept"`
	// From and To span the requests of its blocks, FreedFrom and FreedTo their frees, by
	// events; a block that is never freed ends with the recording.
	From      int `json:"from"`
	To        int `json:"to"`
	FreedFrom int `json:"freed_from"`
	FreedTo   int `json:"freed_to"`
}

// A page lists at most so many groups, and none below a share of the load: the rest is
// one line.
const (
	shownGroups = 16
	shownShare  = 1.0 / 500
)

func (l *ledger) atPeak(stacks *trace.Stacks) Peak {
	at := l.peak
	p := Peak{Event: at, Step: l.stepAt(at), Micros: l.micros[at], Load: l.load[at]}
	step := l.steps[p.Step]
	type key struct {
		size         mem.Bytes
		phase, stack int
		kept         bool
	}
	groups := make(map[key]*Group)
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin > at || b.end <= at {
			continue
		}
		k := key{b.size, b.phase, stacks.Of(b.id), b.begin < step.Begin || b.end >= step.End}
		size := mem.Round(b.size)
		p.Blocks++
		if k.kept {
			p.Kept += size
		}
		g := groups[k]
		if g == nil {
			g = &Group{Size: b.size, Phase: k.phase, Stack: k.stack, Kept: k.kept, From: b.begin, FreedFrom: b.end}
			groups[k] = g
		}
		g.Count++
		g.Bytes += size
		g.From, g.To = min(g.From, b.begin), max(g.To, b.begin)
		g.FreedFrom, g.FreedTo = min(g.FreedFrom, b.end), max(g.FreedTo, b.end)
	}
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.From, b.From), cmp.Compare(a.Stack, b.Stack))
	})
	shown := 0
	for shown < min(len(all), shownGroups) && (shown == 0 || float64(all[shown].Bytes) >= shownShare*float64(p.Load)) {
		shown++
	}
	p.Groups = all[:shown]
	for _, g := range all[shown:] {
		p.Others.Count += g.Count
		p.Others.Bytes += g.Bytes
	}
	return p
}

// Worth is what stalloc's savings against another allocator would buy.
type Worth struct {
	Against string    `json:"against"`
	Saved   mem.Bytes `json:"saved"`
	// More is by how much what grows with the batch could grow before stalloc reserves as
	// much as the other does, as a share of it. Gradients, which do not grow, are counted
	// with it: it is a lower bound.
	More float64 `json:"more"`
}

func worth(d *Data) []Worth {
	ours := d.Allocators[len(d.Allocators)-1]
	grows := float64(d.Peak.Load - d.Peak.Kept)
	var all []Worth
	for _, a := range d.Allocators[:len(d.Allocators)-1] {
		w := Worth{Against: a.Name, Saved: a.Reserved - ours.Reserved}
		if grows > 0 && w.Saved > 0 && !a.Full && !ours.Full {
			w.More = float64(w.Saved) * (1 - ours.Fragmentation) / grows
		}
		all = append(all, w)
	}
	return all
}
