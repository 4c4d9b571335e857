package dsa

// Work counts what a solver does, and keeps the best that it has found. A unit is about what a
// placement of one box or a look at a few of its neighbours takes: 20 ns to 1 µs. It is counted,
// not timed, so that a budget has the same result everywhere.
type Work struct {
	Spent int64 // units
	Top   int64 // of the best placement; 0: there is none
	At    []int64
	// Goal is content: a placement that ends there or lower ends the search.
	Goal int64
	// Least says that no placement ends lower than Top: this was proved.
	Least bool
	// None says that no placement as low as the capacity exists: this was proved.
	None bool

	left  int64
	pause func() (units int64, on bool)
	over  bool
}

// NewWork returns work of which pause grants units at a time, until it says that there are no more.
func NewWork(goal int64, pause func() (units int64, on bool)) *Work {
	return &Work{Goal: goal, pause: pause}
}

// Do notes work that is done, and reports whether to go on. It is to be asked every few
// thousand units, at most every 100,000.
func (w *Work) Do(units int64) bool {
	w.Spent += units
	for w.left -= units; w.left < 0 && !w.over; {
		more, on := w.pause()
		w.left += more
		w.over = !on
	}
	return !w.Over()
}

// Over reports whether the solver is to return: its budget is spent, or what was found suffices.
func (w *Work) Over() bool { return w.over || w.Top > 0 && w.Top <= w.Goal }

// Found takes a placement, by box, if it is better than the best, and reports whether it is.
func (w *Work) Found(at []int64, top int64) bool {
	if w.Top > 0 && w.Top <= top {
		return false
	}
	w.Top, w.At = top, append(w.At[:0], at...)
	return true
}
