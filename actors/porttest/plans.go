package porttest

import (
	"math/rand/v2"
	"slices"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// plan is a step: slots and the orders of their events, as stream.Lay takes them.
type plan struct {
	slots  []stream.Slot
	orders [][]int32
	span   mem.Bytes
}

// random makes a valid plan of n slots, placed first fit; at the end nothing is live.
func random(r *rand.Rand, n int) plan {
	var p plan
	var order, live []int32
	for len(p.slots) < n || len(live) > 0 {
		if len(p.slots) < n && (len(live) == 0 || r.IntN(5) < 3) {
			s := stream.Slot{Size: mem.Grain * mem.Bytes(1+r.IntN(12))}
			s.Offset = p.lowest(live, s.Size)
			p.span = max(p.span, mem.Bytes(s.Offset)+s.Size)
			live = append(live, int32(len(p.slots)))
			order = append(order, int32(len(p.slots)))
			p.slots = append(p.slots, s)
			continue
		}
		i := r.IntN(len(live))
		order = append(order, ^live[i])
		live = slices.Delete(live, i, i+1)
	}
	p.orders = [][]int32{order}
	return p
}

// row is a plan of n slots that are all live at once and freed in their order.
func row(n int, size mem.Bytes) (p plan) {
	order := make([]int32, 2*n)
	for i := range n {
		p.slots = append(p.slots, stream.Slot{Offset: mem.Offset(i) * mem.Offset(size), Size: size})
		order[i], order[n+i] = int32(i), ^int32(i)
	}
	p.span, p.orders = mem.Bytes(n)*size, [][]int32{order}
	return p
}

func (p *plan) lowest(live []int32, size mem.Bytes) (at mem.Offset) {
	for moved := true; moved; {
		moved = false
		for _, l := range live {
			if s := p.slots[l]; at < s.Offset+mem.Offset(s.Size) && s.Offset < at+mem.Offset(size) {
				at, moved = s.Offset+mem.Offset(s.Size), true
			}
		}
	}
	return at
}
