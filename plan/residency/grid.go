package residency

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// part is an item, or a part of one, that can leave.
type part struct {
	item         int32
	offset, size mem.Bytes
	idle, need   Nanos
	from, until  int32 // the moments of the grid at which it is idle and needed
	out, back    Nanos // how long the copies take
}

// grid is a problem with time compressed to the moments at which anything changes.
type grid struct {
	limit mem.Bytes
	parts []part
	times []Nanos     // the moments
	load  []mem.Bytes // by moment, of what cannot leave
	total []mem.Bytes // by moment, with every part on the device
	leave []int32     // parts as they become idle; of several the one needed last first
	come  []int32     // parts as they are needed
}

func newGrid(p *Problem) *grid {
	g := &grid{limit: p.Limit, times: make([]Nanos, 0, len(p.Load)+2*len(p.Items))}
	for _, l := range p.Load {
		g.times = append(g.times, l.From)
	}
	for _, it := range p.Items {
		if it.Need > it.Idle && it.Size > 0 {
			g.times = append(g.times, it.Idle, it.Need)
		}
	}
	slices.Sort(g.times)
	g.times = slices.Compact(g.times)
	g.load = make([]mem.Bytes, len(g.times))
	for k, next := 0, 0; k < len(g.times); k++ {
		for next < len(p.Load) && p.Load[next].From <= g.times[k] {
			next++
		}
		if next > 0 {
			g.load[k] = p.Load[next-1].Bytes
		}
	}
	g.cut(p)
	g.sum()
	g.order()
	return g
}

// cut makes parts of the items. Those that are too small to move are load.
func (g *grid) cut(p *Problem) {
	stays := make([]mem.Bytes, len(g.times)+1) // differences
	g.parts = make([]part, 0, len(p.Items))
	for i, it := range p.Items {
		if it.Need <= it.Idle || it.Size == 0 {
			continue
		}
		from, _ := slices.BinarySearch(g.times, it.Idle)
		until, _ := slices.BinarySearch(g.times, it.Need)
		if it.Size < p.Handle {
			stays[from] += it.Size
			stays[until] -= it.Size
			continue
		}
		n, size := mem.Bytes(1), it.Size
		if it.Parts {
			n, size = it.Size/p.Handle, p.Handle
		}
		for j := range n {
			x := part{int32(i), j * size, size, it.Idle, it.Need, int32(from), int32(until), 0, 0}
			if j == n-1 {
				x.size = it.Size - x.offset
			}
			x.out, x.back = duration(x.size, p.Link.Out), duration(x.size, p.Link.Back)
			g.parts = append(g.parts, x)
		}
	}
	sum := mem.Bytes(0)
	for k := range g.load {
		sum += stays[k]
		g.load[k] += sum
	}
}

// sum adds the load with every part on the device.
func (g *grid) sum() {
	g.total = slices.Clone(g.load)
	d := make([]mem.Bytes, len(g.times))
	for i := range g.parts {
		d[g.parts[i].from] += g.parts[i].size
		d[g.parts[i].until] -= g.parts[i].size
	}
	sum := mem.Bytes(0)
	for k := range d {
		sum += d[k]
		g.total[k] += sum
	}
}

func (g *grid) order() {
	g.leave, g.come = make([]int32, len(g.parts)), make([]int32, len(g.parts))
	for i := range g.parts {
		g.leave[i], g.come[i] = int32(i), int32(i)
	}
	slices.SortFunc(g.leave, func(i, j int32) int {
		a, b := &g.parts[i], &g.parts[j]
		return cmp.Or(cmp.Compare(a.idle, b.idle), cmp.Compare(b.need, a.need), cmp.Compare(i, j))
	})
	slices.SortFunc(g.come, func(i, j int32) int {
		a, b := &g.parts[i], &g.parts[j]
		return cmp.Or(cmp.Compare(a.need, b.need), cmp.Compare(b.idle, a.idle), cmp.Compare(j, i))
	})
}

// least is the least limit that can be kept: no part is away at either end of its idle time.
func (g *grid) least() mem.Bytes {
	idle, need := make([]mem.Bytes, len(g.times)), make([]mem.Bytes, len(g.times))
	for i := range g.parts {
		idle[g.parts[i].from] += g.parts[i].size
		need[g.parts[i].until] += g.parts[i].size
	}
	most := mem.Bytes(0)
	for k := range g.times {
		most = max(most, g.load[k]+idle[k])
		if k > 0 {
			most = max(most, g.load[k-1]+need[k])
		}
	}
	return most
}
