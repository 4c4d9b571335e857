package period

import "stalloc/internal/mem"

// profiles is how many kinds of steps are remembered.
const profiles = 8

// profile is a confirmed end of a step: what to look for, and when.
type profile struct {
	valley            // as at its last occurrence
	id      uint64    // never zero, never used twice
	period  mem.Tick  // events of a step
	soonest mem.Tick  // what comes sooner after the last occurrence is none
	since   mem.Tick  // when its repetition began
	tol     mem.Bytes // of its level
}

// atlas remembers the kinds of steps seen. The last used one comes first.
type atlas struct {
	at [profiles]profile
	n  int
	id uint64 // the last one given out
}

// find returns the profile a valley fits, or -1.
func (a *atlas) find(v *valley) int {
	for i := range a.n {
		if alike(&a.at[i].valley, v, a.at[i].tol) {
			return i
		}
	}
	return -1
}

// with returns the profile of that id, or -1.
func (a *atlas) with(id uint64) int {
	for i := range a.n {
		if a.at[i].id == id {
			return i
		}
	}
	return -1
}

// learn remembers a step that ended at v, in place i or in that of the profile
// not used for longest.
func (a *atlas) learn(i int, v *valley, period mem.Tick, since mem.Tick, tol mem.Bytes) uint64 {
	if i < 0 {
		if a.n < profiles {
			a.n++
		}
		i = a.n - 1
		a.id++
		a.at[i].id, a.at[i].since = a.id, since
	}
	p := &a.at[i]
	p.tol = tol
	p.valley, p.period, p.soonest = *v, period, period-period/4
	a.front(i)
	return a.at[0].id
}

// occur records that profile i occurred at v.
func (a *atlas) occur(i int, v *valley) {
	p := &a.at[i]
	if gap := v.at - p.at; near(gap, p.period) && gap >= shortest {
		p.period, p.soonest = gap, gap-gap/4
	}
	p.valley = *v
	a.front(i)
}

// front moves profile i to the front.
func (a *atlas) front(i int) {
	if i > 0 {
		p := a.at[i]
		copy(a.at[1:i+1], a.at[:i])
		a.at[0] = p
	}
}

// remove forgets profile i.
func (a *atlas) remove(i int) {
	copy(a.at[i:], a.at[i+1:a.n])
	a.n--
}
