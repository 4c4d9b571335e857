package actors

// Where nobody marks the steps, one ends after so many requests and frees: crude, but enough
// for what looks at steps to lay memory out (onerange).
const crudeStep = 1 << 17

// overdue reports whether such a step has ended.
func (d *Device) overdue() bool {
	d.host.Lock()
	defer d.host.Unlock()
	return d.host.Logged() >= crudeStep
}
