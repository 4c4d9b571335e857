package plan

// Slots returns how many requests of the plan have an address.
func (p *Plan) Slots() (n int) {
	for i := range p.Streams {
		for _, slot := range p.Streams[i].Slots {
			if !slot.Pool {
				n++
			}
		}
	}
	return n
}
