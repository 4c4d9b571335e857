package solve

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/exact"
	"stalloc/plan/solve/firstfit"
	"stalloc/plan/solve/paper"
	"stalloc/plan/solve/search"
)

// What a problem is made of; see package dsa.
type (
	// Problem asks for offsets.
	Problem = dsa.Problem
	// Buffer is bytes that stay at one offset for a time.
	Buffer = dsa.Buffer
	// Gap is a time in which a buffer takes less.
	Gap = dsa.Gap
	// Pin says where a buffer lies.
	Pin = dsa.Pin
)

// Check reports what is wrong with offsets for a problem; nil: nothing.
func Check(p *Problem, offsets []mem.Offset) error { return dsa.Check(p, offsets) }

// solver looks for placements until the work is over or it knows no better.
type solver func(in *dsa.Instance, w *dsa.Work, capacity int64, seed uint64, warm []int64)

var solvers = []struct {
	name, about string
	run         solver
}{
	{"search", "ours: descents, first fit by classes, exact search of what is small", search.Run},
	{"descent", "ours, what a live run does: five descents", search.Descents},
	{"firstfit", "largest first, each as low as it fits", firstfit.First},
	{"bestfit", "largest first, each in the smallest gap that fits", firstfit.Smallest},
	{"stalloc", "the STAlloc paper's: homophase groups, homosize layers", paper.Run},
	{"exact", "minimalloc's ideas, for some hundred buffers", exact.Run},
}

// Solvers returns the names of the solvers, the default first.
func Solvers() []string {
	names := make([]string, len(solvers))
	for i, s := range solvers {
		names[i] = s.name
	}
	return names
}

// About says in a line what a solver does.
func About(name string) string {
	for _, s := range solvers {
		if s.name == name {
			return s.about
		}
	}
	return ""
}

// Options say how a problem is solved. The zero value is the default.
type Options struct {
	Solver string // one of Solvers; "": the first
	Budget int64  // units of work; 0: DefaultBudget
	Seed   uint64 // of what is random
	// of an older placement, by buffer: its order is tried first; nil: there is none
	Warm []mem.Offset
	// Progress, if there is one, is told now and then how it goes, without offsets, and answers
	// whether to go on.
	// A solver comes to it after at most 10^6 units.
	Progress func(Solution) (on bool)
}

// DefaultBudget is for a minute at most where nothing is as low as it may be.
const DefaultBudget = 1 << 30

// Solution is the best placement found.
type Solution struct {
	Offsets []mem.Offset // by buffer
	Top     mem.Bytes    // where the highest ends
	Bound   mem.Bytes    // no placement ends lower: the peak load, or the end of what is pinned
	Units   int64        // of work spent
	Done    bool         // the solver knows no better: more work changes nothing
	Optimal bool         // proved: nothing ends lower
	// Fits says that all ends below the capacity, if there is one; Never that no placement does,
	// which is proved.
	Fits, Never bool
}

// Gap is how much higher than the bound a solution is, as a share of it.
func (s *Solution) Gap() float64 {
	if s.Bound == 0 {
		return 0
	}
	return float64(s.Top)/float64(s.Bound) - 1
}

// Solver is a problem being solved. It works when it is told to, and rests in between.
type Solver struct {
	p     *Problem
	in    *dsa.Instance
	work  *dsa.Work
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	left  int64 // units granted and not taken
	done  bool
}

// New prepares to solve a problem. The problem is not to be changed from then on.
func New(p *Problem, o Options) (*Solver, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	name := o.Solver
	if name == "" {
		name = solvers[0].name
	}
	i := slices.Index(Solvers(), name)
	if i < 0 {
		return nil, fmt.Errorf("unknown solver %q: choose from %s", name,
			strings.Join(Solvers(), ", "))
	}
	if o.Warm != nil && len(o.Warm) != len(p.Buffers) {
		return nil, fmt.Errorf("%d offsets of an older placement for %d buffers: give one each",
			len(o.Warm), len(p.Buffers))
	}
	s := &Solver{p: p, in: dsa.Compress(p)}
	s.work = dsa.NewWork(max(s.in.Bound, int64(p.Capacity)), s.pause)
	if err := s.start(o.Warm); err != nil || len(s.in.IDs) == 0 {
		s.done = true
		return s, err
	}
	if p.Capacity > 0 && int64(p.Capacity) < s.in.Bound {
		s.work.None = true
	}
	// The solver is a coroutine: it hands back when what it was granted is used up.
	s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		if !s.work.Over() && !s.work.None {
			solvers[i].run(s.in, s.work, int64(p.Capacity), o.Seed, s.warm(o.Warm))
		}
	})
	return s, nil
}

// pause hands back to whoever runs the solver.
func (s *Solver) pause() (units int64, on bool) {
	if s.left <= 0 {
		on = s.yield(struct{}{})
	} else {
		on = true
	}
	units, s.left = s.left, 0
	return units, on
}

// warm is an older placement by box.
func (s *Solver) warm(offsets []mem.Offset) []int64 {
	if offsets == nil {
		return nil
	}
	at := make([]int64, len(s.in.IDs))
	for k, id := range s.in.IDs {
		at[k] = int64(offsets[id])
	}
	return at
}

// start takes in the older placement, if it is one of this problem, or else stacks all buffers:
// there is something to return from the first unit on.
func (s *Solver) start(warm []mem.Offset) error {
	all := *s.p
	all.Capacity = 0
	if warm != nil && dsa.Check(&all, warm) == nil {
		s.work.Found(s.warm(warm), s.in.Top(s.warm(warm)))
		return nil
	}
	at, top := make([]int64, len(s.in.IDs)), int64(0)
	for box := range at {
		if s.in.Pin != nil && s.in.Pin[box] != dsa.Free {
			at[box] = s.in.Pin[box]
			top = max(top, at[box]+s.in.Size[box])
		}
	}
	for box := range at {
		if s.in.Pin == nil || s.in.Pin[box] == dsa.Free {
			at[box] = s.in.Fits(int32(box), top)
			top = at[box] + s.in.Size[box]
		}
	}
	if s.in.Pin != nil {
		if err := dsa.Check(&all, s.in.Offsets(s.p, at)); err != nil {
			return fmt.Errorf("what is pinned cannot be: %w", err)
		}
	}
	s.work.Found(at, top)
	return nil
}

// Run goes on for about so many units, and returns the best until then. It goes on from there when
// it is called again; what is found does not depend on how often that is.
func (s *Solver) Run(units int64) Solution {
	s.run(units)
	return s.Solution()
}

func (s *Solver) run(units int64) {
	if s.left += units; !s.done {
		_, more := s.next()
		s.done = !more
	}
}

// Solve solves a problem at once.
func Solve(p *Problem, o Options) (Solution, error) {
	s, err := New(p, o)
	if err != nil {
		return Solution{}, err
	}
	defer s.Close()
	budget := o.Budget
	if budget <= 0 {
		budget = DefaultBudget
	}
	const slice = 1 << 18
	for s.work.Spent < budget && !s.done {
		s.run(min(slice, budget-s.work.Spent))
		if o.Progress != nil && !o.Progress(s.status()) {
			break
		}
	}
	return s.Solution(), nil
}

// Close ends the solver. It is not to be run again.
func (s *Solver) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.done = true
}

// Solution returns the best until now.
func (s *Solver) Solution() Solution {
	r := s.status()
	r.Offsets = s.in.Offsets(s.p, s.work.At)
	return r
}

// status is the best until now, without its offsets.
func (s *Solver) status() Solution {
	w := s.work
	r := Solution{Top: mem.Bytes(w.Top), Bound: mem.Bytes(s.in.Bound), Units: w.Spent, Done: s.done,
		Never: w.None}
	r.Fits = s.p.Capacity == 0 || r.Top <= s.p.Capacity
	r.Optimal = r.Top == r.Bound || w.Least
	return r
}
