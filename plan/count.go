package plan

// Slots returns how many requests the plan serves.
func (p *Plan) Slots() (n int) {
	for i := range p.Streams {
		n += len(p.Streams[i].Slots)
	}
	return n
}
