package paper

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// drawing is a plan in the making: set-up, first and second step as one problem, in which what
// lasts is there from the beginning to the end. A later step repeats the second one, so a block of
// it that lives into the third is taken to live at the beginning of the second one, too.
//
//	          set-up and first      second
//	weights   ████████████████████████████████████
//	gradients                ▒▒▒▒▒▒▒▒▒      ▒▒▒▒▒▒   from here into the step that follows
//	others      ████   ███       ██   ██████   ██
type drawing struct {
	p          *Profile
	modules    []int32
	second     []int // the requests of that step that have an ordinal
	third      []int
	problem    dsa.Problem
	head, step []planned
	at         []mem.Offset // by buffer
}

// planned is a request and its buffer, or none.
type planned struct {
	number int
	buffer int
}

const noBuffer = -1

func (p *Profile) draw(modules []int32) *drawing {
	d := &drawing{p: p, modules: modules, second: p.static(1, modules),
		third: p.static(2, modules)}
	crossing := make(map[mem.Bytes][]int) // from the first step into the second: of head
	for _, n := range p.static(0, modules) {
		r := &p.requests[n]
		b := dsa.Buffer{Lower: mem.Tick(r.born), Upper: d.until(r.dead), Size: mem.Round(r.size)}
		if r.dead == never {
			b.Lower = 0
		} else if p.apart(r.stream) {
			d.head = append(d.head, planned{n, noBuffer})
			continue
		}
		if !r.setUp && r.dead > p.ends[0] && r.dead <= p.ends[1] {
			crossing[r.size] = append(crossing[r.size], len(d.head))
		}
		d.head = append(d.head, planned{n, d.add(b)})
	}
	for i, n := range d.second {
		r := &p.requests[n]
		x := planned{n, noBuffer}
		switch {
		case i >= len(d.third) || p.requests[d.third[i]].size != r.size || r.dead == never ||
			p.apart(r.stream):
		case r.dead <= p.ends[1]:
			dead := mem.Tick(r.dead)
			if again := p.requests[d.third[i]]; again.dead != never {
				dead = max(dead, d.again(again.dead))
			}
			x.buffer = d.add(dsa.Buffer{Lower: mem.Tick(r.born), Upper: dead,
				Size: mem.Round(r.size)})
		default:
			var before *planned
			if same := crossing[r.size]; len(same) > 0 {
				before, crossing[r.size] = &d.head[same[0]], same[1:]
			}
			x.buffer = d.cross(r, before)
		}
		d.step = append(d.step, x)
	}
	return d
}

// cross adds a block of the second step that lives into the third, where there is a time in which
// it does not, and has it take the place of the one before it, if there was one.
func (d *drawing) cross(r *request, before *planned) int {
	begin, end := mem.Tick(d.p.ends[0]), mem.Tick(d.p.ends[1])
	dead := d.again(r.dead)
	if before != nil {
		dead = max(dead, mem.Tick(d.p.requests[before.number].dead))
	}
	if dead >= mem.Tick(r.born) {
		return noBuffer
	}
	buffer := 0
	if before != nil {
		buffer = before.buffer
		d.problem.Buffers[buffer].Upper = end
	} else {
		buffer = d.add(dsa.Buffer{Lower: begin, Upper: end, Size: mem.Round(r.size)})
	}
	d.problem.Gaps = append(d.problem.Gaps, dsa.Gap{Buffer: buffer, Lower: dead,
		Upper: mem.Tick(r.born)})
	return buffer
}

func (d *drawing) add(b dsa.Buffer) int {
	d.problem.Buffers = append(d.problem.Buffers, b)
	return len(d.problem.Buffers) - 1
}

// until is a time of death in the problem.
func (d *drawing) until(dead int) mem.Tick { return mem.Tick(min(dead, d.p.ends[1])) }

// again is the time in the second step of what happens in the third: before the same request.
func (d *drawing) again(event int) mem.Tick {
	n, _ := slices.BinarySearchFunc(d.third, event,
		func(n, event int) int { return cmp.Compare(d.p.requests[n].born, event) })
	if n >= len(d.second) {
		return mem.Tick(d.p.ends[1])
	}
	return mem.Tick(d.p.requests[d.second[n]].born)
}

func (d *drawing) entries(of []planned) []entry {
	all := make([]entry, len(of))
	for i, x := range of {
		r := &d.p.requests[x.number]
		all[i] = entry{r.size, r.stream, nowhere}
		if x.buffer != noBuffer {
			all[i].at = d.at[x.buffer]
		}
	}
	return all
}
