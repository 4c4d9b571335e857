package moea

// How children are made. Exploiting searches the neighbourhood of corners, exploring mates the
// whole population.
const (
	exploitFirst = 0.9 // of generations, until the nadir point has settled
	exploitThen  = 0.1
	spreadIndex  = 20  // of simulated binary crossover and of polynomial mutation
	cooling      = 0.7 // of the corners' mutation
)

// draw returns a number from 0 to below 1. The conversion keeps the division in it from being
// fused with what follows.
func (s *Search) draw() float64 { return float64(s.rng.Float64()) }

// children returns the next generation.
func (s *Search) children() [][]float64 {
	share := exploitFirst
	if s.settled {
		share = exploitThen
	}
	if s.draw() < share {
		return s.exploit()
	}
	return s.explore()
}

// exploit returns equally many children of each corner, which are mutated only.
func (s *Search) exploit() (children [][]float64) {
	for _, corner := range s.corners {
		for range max(s.o.Population/len(s.corners), 1) {
			children = append(children, s.near(corner.X))
		}
	}
	return children
}

// near changes a variable or some: mostly by little, and by less the further the search is.
func (s *Search) near(parent []float64) []float64 {
	x := append([]float64(nil), parent...)
	n := len(x)
	share := float64(s.spent) / float64(s.o.Evaluations+2*s.o.Population)
	heat := float64((1 - share) * cooling)
	changed := false
	for i := range x {
		if s.draw() <= 1/float64(n) {
			changed = true
			x[i] = s.step(i, parent[i], heat)
		}
	}
	if !changed {
		i := s.rng.IntN(n)
		x[i] = s.step(i, parent[i], heat)
	}
	return x
}

// step moves a value of variable i; beyond a bound it lands between the bound and where it was.
func (s *Search) step(i int, v, heat float64) float64 {
	low, high := s.p.Lower[i], s.p.Upper[i]
	side := s.draw() - 0.5
	far := 1 - pow(1-s.draw(), -heat)
	to := v + float64(float64(0.5*side*far)*(high-low))
	switch {
	case to > high:
		to = high - float64(0.5*s.draw()*(high-v))
	case to < low:
		to = low + float64(0.5*s.draw()*(v-low))
	}
	return s.p.within(i, to)
}

// explore mates the population two by two, at random.
func (s *Search) explore() (children [][]float64) {
	order := s.rng.Perm(len(s.population))
	for k := 0; k+1 < len(order); k += 2 {
		a, b := s.cross(s.population[order[k]].X, s.population[order[k+1]].X)
		children = append(children, s.mutate(a), s.mutate(b))
	}
	if len(children) == 0 {
		children = append(children, s.mutate(s.population[0].X))
	}
	return children
}

// cross is simulated binary crossover (Deb and Agrawal, 1995) of half of the variables.
func (s *Search) cross(a, b []float64) (c, d []float64) {
	c, d = make([]float64, len(a)), make([]float64, len(a))
	for i := range a {
		u := s.draw()
		spread := 0.0
		if u <= 0.5 {
			spread = pow(float64(2*u), 1./(spreadIndex+1))
		} else {
			spread = pow(2-float64(2*u), -1./(spreadIndex+1))
		}
		if s.rng.IntN(2) == 0 {
			spread = -spread
		}
		if s.rng.IntN(2) == 0 {
			spread = 1
		}
		middle, half := float64((a[i]+b[i])/2), float64(float64(spread*(a[i]-b[i]))/2)
		c[i], d[i] = s.p.within(i, middle+half), s.p.within(i, middle-half)
	}
	return c, d
}

// mutate is polynomial mutation (Deb and Goyal, 1996) of one variable on average.
func (s *Search) mutate(parent []float64) []float64 {
	x := append([]float64(nil), parent...)
	for i, v := range x {
		if s.draw() >= 1/float64(len(x)) {
			continue
		}
		low, width := s.p.Lower[i], s.p.Upper[i]-s.p.Lower[i]
		u := s.draw()
		if width == 0 {
			continue
		}
		// The distance to the bound on that side keeps the child within.
		step := 0.0
		if u <= 0.5 {
			free := 1 - (v-low)/width
			u = float64(2 * u)
			step = pow(u+float64((1-u)*pow(free, spreadIndex+1)), 1./(spreadIndex+1)) - 1
		} else {
			free := 1 - (s.p.Upper[i]-v)/width
			u = float64(2 * (1 - u))
			step = 1 - pow(u+float64((1-u)*pow(free, spreadIndex+1)), 1./(spreadIndex+1))
		}
		x[i] = s.p.within(i, v+float64(step*width))
	}
	return x
}
