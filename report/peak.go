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

// Worth is what stalloc's savings against another allocator would buy on the smallest device
// that the run fits in under the other. In how much a larger batch would run at full speed
// only a replay of it could tell.
type Worth struct {
	Against string    `json:"against"`
	Device  mem.Bytes `json:"device"`
	Saved   mem.Bytes `json:"saved"` // of it under stalloc; negative: it needs more
	// More is by how much what grows with the batch could grow before stalloc does not fit
	// either, as a share of it. Gradients, which do not grow, are counted with it: it is a
	// lower bound.
	More float64 `json:"more"`
}

// spared is the share of the load that is not counted as room: larger blocks lie otherwise,
// and what one run needs above its load is not exactly what another does.
const spared = 0.01

func worth(d *Data) []Worth {
	fits, _ := d.figures()
	ours, load := fits["stalloc"], float64(d.Peak.Load)
	var all []Worth
	for _, name := range compared[:len(compared)-1] {
		if ours == 0 || fits[name] == 0 {
			continue
		}
		w := Worth{Against: name, Device: fits[name], Saved: fits[name] - ours}
		if grows := load - float64(d.Peak.Kept); grows > 0 {
			w.More = max(0, load*(float64(w.Device)/float64(ours)-1-spared)/grows)
		}
		all = append(all, w)
	}
	return all
}
