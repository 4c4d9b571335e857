package maf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sum is that of values, each changed by its place.
func sum(f []float64, of func(j int, v float64) float64) (s float64) {
	for j, v := range f {
		s += of(j, v)
	}
	return s
}

func added(f []float64) float64 { return sum(f, func(_ int, v float64) float64 { return v }) }

func squared(x float64) float64 { return x * x }

// equations have to be 0 on the front of a problem.
var equations = map[string]func(f []float64) float64{
	"MaF1": func(f []float64) float64 { return float64(len(f)-1) - added(f) },
	"MaF2": unitSphere,
	"MaF3": func(f []float64) float64 {
		m := len(f)
		return sum(f[:m-1], func(_ int, v float64) float64 { return math.Sqrt(v) }) + f[m-1] - 1
	},
	"MaF4": func(f []float64) float64 {
		return sum(f, func(j int, v float64) float64 { return squared(1 - v/power2(j+1)) }) - 1
	},
	"MaF5": func(f []float64) float64 {
		return sum(f, func(j int, v float64) float64 { return squared(v / power2(len(f)-j)) }) - 1
	},
	"MaF6": func(f []float64) float64 {
		// The first two are alike, each next is the root of 2 times as large, but for the last.
		m := len(f)
		off := f[0] - f[1]
		for j := 1; j < m-2; j++ {
			off += math.Abs(f[j+1] - math.Sqrt2*f[j])
		}
		return off + squared(f[m-1]) + squared(f[m-2]*math.Sqrt2) - 1
	},
	"MaF7": func(f []float64) float64 {
		m := len(f)
		h := sum(f[:m-1], func(_ int, v float64) float64 {
			return v / 2 * (1 +
				math.Sin(3*math.Pi*v))
		})
		return f[m-1] - 2*(float64(m)-h)
	},
	"MaF12": func(f []float64) float64 {
		return sum(f, func(j int, v float64) float64 { return squared(v / float64(2*j+2)) }) - 1
	},
	"MaF13": func(f []float64) float64 {
		rest := f[0]*f[0] + math.Pow(f[1], 10) + math.Pow(f[2], 10)
		off := func(_ int, v float64) float64 { return math.Abs(v - rest) }
		return unitSphere(f[:3]) + sum(f[3:], off)
	},
	"MaF14": func(f []float64) float64 { return added(f) - 1 },
	"MaF15": func(f []float64) float64 {
		return sum(f, func(_ int, v float64) float64 { return squared(1 - v) }) - 1
	},
	"DTLZ1": func(f []float64) float64 { return added(f) - 0.5 },
	"DTLZ2": unitSphere, "DTLZ3": unitSphere, "DTLZ4": unitSphere,
}

func unitSphere(f []float64) float64 {
	return sum(f, func(_ int, v float64) float64 { return v * v }) - 1
}

// optimum changes a random point so that it lies in the set whose values are the front.
func optimum(p *Problem, x []float64) {
	m := p.Objectives
	switch p.Name {
	case "MaF7":
		for i := range x {
			if i >= m-1 {
				x[i] = 0
			} else {
				x[i] *= 0.25
			}
		}
	case "MaF8", "MaF9":
		radius, angle := 0.8*math.Sqrt((x[0]+reach)/(2*reach)), x[1]
		x[0], x[1] = radius*math.Cos(angle), radius*math.Sin(angle)
	case "MaF10", "MaF11":
		for i := m - 1; i < len(x); i++ {
			x[i] = 0.35 * p.Upper[i]
		}
	case "MaF12":
		behind := 0.0
		for i := len(x) - 1; i >= 0; i-- {
			z := x[i] / p.Upper[i]
			if i >= m-1 {
				z = 0.35
				if n := len(x) - 1 - i; n > 0 {
					u := behind / float64(n)
					x := math.Abs(math.Floor(0.5-u) + 0.98/49.98)
					z = math.Pow(0.35, 1/(0.02+49.98*(0.98/49.98-(1-2*u)*x)))
				}
			}
			x[i] = z * p.Upper[i]
			behind += z
		}
	case "MaF13":
		for i := 2; i < 5; i++ {
			x[i] = 2 * x[1] * math.Sin(2*math.Pi*x[0]+float64(i+1)*math.Pi/5)
		}
	case "MaF14", "MaF15":
		x[0] /= 2
		sizes := groups(m, len(x)-m+1)
		for j, i := 0, m-1; j < m; j++ {
			for range 2 * sizes[j] {
				share := float64(i+1) / float64(len(x))
				if p.Name == "MaF14" {
					x[i] = (10*x[0] + float64(j%2)) / (1 + share)
				} else {
					x[i] = 10 * x[0] / (1 + math.Cos(share*math.Pi/2))
				}
				i++
			}
		}
	default:
		for i := m - 1; i < len(x); i++ {
			x[i] = 0.5
		}
	}
}

// TestFront: the points of each front fulfil the equation of it, and so do the values of points
// that are known to be optimal; no such value is better than a point of the front, and none of its
// points than another.
func TestFront(t *testing.T) {
	for _, name := range Names() {
		for _, m := range []int{3, 5, 10} {
			p, err := New(name, m)
			if err != nil {
				t.Fatal(err)
			}
			front := p.Front(1000)
			if len(front) < 50 || len(front) > 1000 {
				t.Errorf("%s, %d objectives: %d points of the front", name, m, len(front))
			}
			rng := rand.New(rand.NewPCG(1, uint64(m)))
			var best [][]float64
			for range 100 {
				x := make([]float64, len(p.Lower))
				for i := range x {
					x[i] = p.Lower[i] + rng.Float64()*(p.Upper[i]-p.Lower[i])
				}
				for j, v := range p.Evaluate(x) {
					if math.IsNaN(v) || v < -1e-9 {
						t.Fatalf("%s of %v: objective %d is %v", name, x, j, v)
					}
				}
				optimum(p, x)
				best = append(best, p.Evaluate(x))
			}
			for k, f := range slices.Concat(front, best) {
				if equation := equations[name]; equation != nil && math.Abs(equation(f)) > 1e-5 {
					t.Fatalf("%s, %d objectives, point %d: %v is off the front by %v", name, m, k,
						f, equation(f))
				}
			}
			for _, f := range front {
				for _, g := range slices.Concat(front, best) {
					if clearly(g, f) {
						t.Fatalf("%s, %d objectives: %v of the front is worse than %v", name, m, f,
							g)
					}
				}
			}
		}
	}
}

// clearly reports whether a is better than b in all.
func clearly(a, b []float64) bool {
	for j, v := range a {
		if v > b[j]-1e-6 {
			return false
		}
	}
	return true
}

// TestValues has values computed by hand.
func TestValues(t *testing.T) {
	fill := func(n int, v float64, first ...float64) []float64 {
		return append(slices.Clone(first), slices.Repeat([]float64{v}, n-len(first))...)
	}
	r2, r3 := math.Sqrt2, math.Sqrt(3)
	c8, s8 := math.Cos(math.Pi/8), math.Sin(math.Pi/8)
	const angle = 8 * math.Pi / 42
	for k, x := range []struct {
		name string
		at   []float64
		want []float64
	}{
		// Of a sphere, x = 1/2, 1/3: the first angle is 45°, the second 30°.
		{"DTLZ2", fill(12, 0.5, 0.5, 1./3), []float64{r2 / 2 * r3 / 2, r2 / 2 / 2, r2 / 2}},
		{"DTLZ2", fill(12, 1, 0, 0), []float64{3.5, 0, 0}}, // ten times a quarter besides
		{"DTLZ1", fill(7, 0.5, 0.5, 0.25), []float64{0.0625, 0.1875, 0.25}},
		{"DTLZ1", fill(7, 0, 0, 0), []float64{0, 0, 0.5 * 126}}, // 100 (5 + 5/4 - 5)
		{"DTLZ3", fill(12, 0, 1, 0), []float64{0, 0, 251}},
		{"DTLZ4", fill(12, 0.5, 1, 0), []float64{0, 0, 1}},
		{"DTLZ4", fill(12, 0.5, 0.5, math.Pow(0.5, 0.01)), []float64{r2 / 2, r2 / 2, 0}},
		{"MaF1", fill(12, 0.5, 0.5, 0.25), []float64{1 - 0.125, 1 - 0.375, 0.5}},
		{"MaF1", fill(12, 0, 0, 0), []float64{3.5, 3.5, 0}},
		// All angles are 45°, a distance of three variables at their end is 3/16, of four 4/16.
		{"MaF2", fill(12, 1, 0.5, 0.5), []float64{19. / 16 * 0.5, 19. / 16 * 0.5,
			20. / 16 * r2 / 2}},
		{"MaF2", fill(12, 0.5, 0, 0), []float64{c8 * c8, c8 * s8, s8}},
		{"MaF3", fill(12, 0.5, 0.5, 0.5), []float64{1. / 16, 1. / 16, 0.5}},
		{"MaF3", fill(12, 0, 1, 0), []float64{0, 0, 251 * 251}},
		{"MaF4", fill(12, 0.5, 0.5, 0.5), []float64{1, 2, 8 * (1 - r2/2)}},
		{"MaF4", fill(12, 0, 1, 0), []float64{502, 1004, 0}},
		{"MaF5", fill(12, 0.5, 1, 1), []float64{0, 0, 2}},
		{"MaF5", fill(12, 1, 0, 0), []float64{28, 0, 0}},
		{"MaF6", fill(12, 0.5, 0.5, 0.9), []float64{0.5, 0.5, r2 / 2}},
		// g = 10/4, and so the second angle is (1 + 5/3)/7 of 90°.
		{"MaF6", fill(12, 0, 0, 1./3), []float64{251 * math.Cos(angle), 251 * math.Sin(angle), 0}},
		{"MaF7", fill(22, 0, 0.5, 0), []float64{0.5, 0, 6}}, // sin 270° = -1
		{"MaF7", fill(22, 1, 1./6, 0), []float64{1. / 6, 0, 11 * (3 - 2./66)}},
		{"MaF8", []float64{0, 0}, []float64{1, 1, 1}},
		{"MaF8", []float64{0, 1}, []float64{r3, r3, 0}}, // the last corner is at the top
		{"MaF9", []float64{0, 0}, []float64{0.5, 0.5, 0.5}},
		{"MaF9", []float64{0, -0.5}, []float64{0, 0.75, 0.75}}, // on the edge between the first two
		{"MaF10", scale(fill(12, 0.35, 0, 0)), []float64{0, 0, 6}},
		{"MaF10", scale(fill(12, 0.35, 1, 1)), []float64{2, 0, 0}},
		{"MaF11", scale(fill(12, 0.35, 0, 0)), []float64{0, 0, 6}},
		{"MaF11", scale(fill(12, 0.35, 1, 1)), []float64{2, 0, 0}},              // cos² 5π = 1
		{"MaF11", scale(fill(12, 1, 0, 0)), []float64{2. / 3, 2. / 3, 20. / 3}}, // (1 + 1) / 3
		{"MaF13", []float64{0, 0, 0, 0, 0}, []float64{0, 0, 1}},                 // no sine counts
		{"MaF13", []float64{0, 0, 1, 0.5, 0}, []float64{0.5, 0, 3}},             // 2 Y² beside
		// Rastrigin of 0 is 0
		{"MaF14", fill(60, 0, 0, 0), []float64{0, 0, 1}},
		// cos 0 · sin 90° = 1
		{"MaF15", fill(60, 0, 0, 1), []float64{1, 0, 1}},
		{"MaF12", scale(fill(12, 0.35, 0, 0)), []float64{-1, -1, -1}}, // below
		{"MaF13", []float64{0.25, 1, 2, 2, 2}, []float64{-1, -1, -1}}, // below
		{"MaF14", fill(60, 1, 0, 0), []float64{-1, -1, -1}},           // below
		{"MaF15", fill(60, 1, 0, 0), []float64{-1, -1, -1}},           // below
	} {
		p, err := New(x.name, 3)
		if err != nil {
			t.Fatal(err)
		}
		if x.want[0] < 0 {
			x.want = byHand(x.name)
		}
		for j, v := range p.Evaluate(x.at) {
			if math.Abs(v-x.want[j]) > 1e-9*max(1, math.Abs(x.want[j])) {
				t.Errorf("%d, %s: objective %d is %v, by hand %v", k, x.name, j, v, x.want[j])
			}
		}
	}
}

func scale(x []float64) []float64 {
	for i := range x {
		x[i] *= 2 * float64(i+1)
	}
	return x
}

// byHand follows what is too long for a line.
func byHand(name string) []float64 {
	switch name {
	case "MaF12":
		// Positions are 0, and so are they bent. Deceptive of 0 is 1 +
		// (0.35-0.001)(-1·(0.95+349)/0.349 + 0 + 1000) = 0.05. The means of the ten are 0.35, and
		// so each but the last is 0.35 to the q.
		q := 0.02 + 49.98*(0.98/49.98-0.3*0.98/49.98)
		a, b := hills(math.Pow(0.35, q)), hills(0.35)
		far := (9*a + b + 2*9*math.Abs(a-b)) / 5 / 11
		angle := 0.05 * math.Pi / 2
		s, c := math.Sin(angle), math.Cos(angle)
		return []float64{far + 2*s*s, far + 4*s*c, far + 6*c}
	case "MaF13":
		// 2 sin(90° + i·36°) for i = 3, 4, 5 is taken from 2.
		y := func(i float64) float64 { return 2 - 2*math.Cos(i*math.Pi/5) }
		c := math.Cos(math.Pi / 8)
		return []float64{math.Sin(math.Pi/8) + 2*squared(y(4)), c + 2*squared(y(5)),
			2 * squared(y(3))}
	case "MaF14":
		// Groups of 5, 14 and 8 variables follow from 0.342, 0.855 and 0.471 of 1.668 of 29; only
		// the last objective is not 0.
		g := 0.0
		for i := 41; i <= 56; i++ {
			v := 1 + float64(i)/60
			g += (v*v - 10*math.Cos(2*math.Pi*v) + 10) / 16
		}
		return []float64{0, 0, 1 + g}
	default: // MaF15
		at := func(i int) float64 { return 1 + math.Cos(float64(i)/60*math.Pi/2) }
		second, third := 0.0, 0.0
		for i := 13; i <= 40; i++ {
			second += squared(at(i)) / 28
		}
		for _, from := range []int{41, 49} {
			squares, product := 0.0, 1.0
			for k := range 8 {
				v := at(from + k)
				squares, product = squares+v*v, product*math.Cos(v/math.Sqrt(float64(k+1)))
			}
			third += (squares/4000 - product + 1) / 16
		}
		return []float64{0, 1 + second + third, 1 + third}
	}
}

func hills(y float64) float64 {
	u := math.Abs(y-0.35) / 2 / (math.Floor(0.35-y) + 0.35)
	return (1 + math.Cos(122*math.Pi*(0.5-u)) + 380*u*u) / 97
}

// TestSentAway: outside of the polygon there are places that would be as good as those inside.
func TestSentAway(t *testing.T) {
	p, _ := New("MaF9", 5)
	corners := polygon(5)
	meet := crossing(corners[4], corners[0], corners[1], corners[2]) // a tip of the star
	beyond := []float64{
		2*meet[0] - (corners[0][0]+corners[1][0])/2, 2*meet[1] - (corners[0][1]+corners[1][1])/2,
	}
	x := []float64{meet[0] + 0.9*(beyond[0]-meet[0]), meet[1] + 0.9*(beyond[1]-meet[1])}
	f := p.Evaluate(x)
	if slices.Max(f) < 10 {
		t.Errorf("%v is served as %v, and was to be sent away", x, f)
	}
	if again := p.Evaluate(x); !slices.Equal(f, again) {
		t.Errorf("%v is %v, and then %v", x, f, again)
	}
	if f := p.Evaluate([]float64{0, 0}); math.Abs(f[3]-math.Cos(math.Pi/5)) > 1e-12 {
		t.Errorf("the centre: %v", f)
	}
}

func TestNew(t *testing.T) {
	for _, name := range []string{"MaF16", "MaF0", "ZDT1", "", "MaF", "7"} {
		if p, err := New(name, 5); err == nil {
			t.Errorf("%q: %v", name, p)
		}
	}
	if _, err := New("MaF1", 2); err == nil {
		t.Error("two objectives")
	}
	for want, name := range map[int]string{
		140_000: "MaF1", 100_000: "MaF8", 240_000: "MaF7", 1_000_000: "MaF14",
	} {
		if p, _ := New(name, 5); p.Budget() != want {
			t.Error(fmt.Sprint(name, ": ", p.Budget(), " evaluations, expected ", want))
		}
	}
}
