package moea

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cones are the squares of the distances from corners of the unit cube, without functions whose
// last bit depends on the machine.
func cones(m int) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		f := make([]float64, m)
		for j := range f {
			for i, v := range x {
				if i == j {
					v -= 1
				}
				f[j] += float64(v * v)
			}
		}
		return f
	}
}

func unitBox(n, m int) Problem {
	return Problem{Lower: make([]float64, n), Upper: slices.Repeat([]float64{1}, n), Objectives: m}
}

// all evaluates points from the first to the last, or from the last.
func all(of func(x []float64) []float64, backwards bool) func(points [][]float64) [][]float64 {
	return func(points [][]float64) [][]float64 {
		out := make([][]float64, len(points))
		for k := range points {
			if backwards {
				k = len(points) - 1 - k
			}
			out[k] = of(points[k])
		}
		return out
	}
}

func fingerprint(points []Point) string {
	h := fnv.New64a()
	for _, p := range points {
		for _, v := range append(slices.Clone(p.X), p.F...) {
			fmt.Fprintf(h, "%x ", math.Float64bits(v))
		}
	}
	return fmt.Sprintf("%x", h.Sum64())
}

// TestSameEverywhere: what a seed finds is the same whatever the machine and the order of
// evaluations.
func TestSameEverywhere(t *testing.T) {
	for m, want := range map[int]string{
		2: "6c97e42c80c1758b", 5: "5bff42989d4317fa", 15: "f0329933eb45be9c",
	} {
		var got []string
		for _, backwards := range []bool{false, true} {
			o := Options{Evaluations: 2000, Population: 20, Seed: 7}
			s, err := Minimize(unitBox(m+3, m), o, all(cones(m), backwards))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fingerprint(s.Population()))
		}
		if got[0] != want || got[1] != want {
			t.Errorf("%d objectives: %v, on other machines %s", m, got, want)
		}
		o := Options{Evaluations: 2000, Population: 20, Seed: 8}
		s, _ := Minimize(unitBox(m+3, m), o, all(cones(m), false))
		if fingerprint(s.Population()) == want {
			t.Errorf("%d objectives: another seed has found the same", m)
		}
	}
}

// TestAsk: no more points are asked for than there may be, all within the box, the first ones
// first, and the same again until their objectives are told.
func TestAsk(t *testing.T) {
	for _, evaluations := range []int{1, 2, 3, 19, 20, 21, 399} {
		p := Problem{Lower: []float64{-3, 5, 2}, Upper: []float64{-1, 6, 2}, Objectives: 3}
		first := [][]float64{{-2, 5, 2}, {-1, 6, 2}}
		s, err := New(p, Options{Evaluations: evaluations, Population: 20, First: first})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		for points := s.Ask(); len(points) > 0; points = s.Ask() {
			if again := s.Ask(); &again[0][0] != &points[0][0] {
				t.Fatal("other points are asked for before those before are told")
			}
			for k, x := range points {
				if asked == 0 && k < 2 && !slices.Equal(x, first[k]) {
					t.Errorf("point %d is %v, and was to be %v", k, x, first[k])
				}
				if err := p.holds(x); err != nil {
					t.Fatalf("%v: %v", x, err)
				}
			}
			asked += len(points)
			if err := s.Tell(all(cones(3), false)(points)); err != nil {
				t.Fatal(err)
			}
		}
		if asked != evaluations {
			t.Errorf("%d points are asked for, and %d may be", asked, evaluations)
		}
		if front := s.Front(); len(front) == 0 || len(s.Population()) > 21 {
			t.Errorf("%d points of the front in a population of %d", len(front),
				len(s.Population()))
		}
	}
}

// TestFrontIsFound: with 2 to 15 objectives variables that only do harm become small. At random
// they are a half.
func TestFrontIsFound(t *testing.T) {
	for _, m := range []int{2, 3, 5, 10, 15} {
		o := Options{Evaluations: 20_000, Population: 60, Seed: 1}
		s, err := Minimize(unitBox(m+5, m), o, all(cones(m), false))
		if err != nil {
			t.Fatal(err)
		}
		harm, front := 0.0, s.Front()
		for _, p := range front {
			harm += total(p.X[m:]) / float64(5*len(front))
		}
		if harm > 0.03 || len(front) < 40 {
			t.Errorf("%d objectives: %d points of the front, variables that are to be 0 are %v",
				m, len(front), harm)
		}
	}
}

// choose runs a selection of some objectives.
func choose(size int, objectives ...[]float64) selection {
	s := selection{size: size}
	for _, f := range objectives {
		s.points = append(s.points, Point{F: f})
	}
	s.run()
	return s
}

// TestCorners by hand.
func TestCorners(t *testing.T) {
	for k, x := range []struct {
		objectives [][]float64
		corners    []int
		nadir      []float64
	}{
		// The axes' nearest are 0, 1 and 2. Of the rest 3 is the best in the first objective, and
		// lies outside in the second; 4 is so in the second and the third, by too much; 5 is so in
		// the third, and lies inside.
		{[][]float64{{4, 0.5, 0.5}, {0.5, 4, 0.5}, {0.5, 0.5, 4}, {0.1, 5, 1}, {1, 0.2, 30},
			{1, 1, 0.9}},
			[]int{0, 1, 2, 3}, []float64{4, 5, 4}},
		// With two objectives the nearest to an axis is the best in the other.
		{[][]float64{{3, 0}, {0, 2}, {1, 1}}, []int{0, 1}, []float64{3, 2}},
		// One point that is best in everything, and one that it dominates.
		{[][]float64{{1, 1}, {2, 2}}, []int{0}, []float64{1, 1}},
	} {
		s := choose(3, x.objectives...)
		if !slices.Equal(s.corners, x.corners) || !slices.Equal(s.nadir, x.nadir) {
			t.Errorf("%d: corners %v and nadir %v, by hand %v and %v",
				k, s.corners, s.nadir, x.corners, x.nadir)
		}
	}
}

// TestSelection by hand: what resists dominance goes first, then what has a near neighbour in
// angle; dominated points fill what is left, the nearest first.
func TestSelection(t *testing.T) {
	for k, x := range []struct {
		size       int
		objectives [][]float64
		chosen     []int
	}{
		{2, [][]float64{{9, 0}, {0, 9}, {1, 7}}, []int{0, 1}},
		// 45° are the farthest from both corners.
		{3, [][]float64{{9, 0}, {0, 9}, {1, 7}, {4, 4}, {3, 5}}, []int{0, 1, 3}},
		// Point 3 resists: it lies outside by a factor, though its direction is the loneliest.
		{4, [][]float64{{4, 0.5, 0.5}, {0.5, 4, 0.5}, {0.5, 0.5, 4}, {0.4, 60, 90}, {3, 0.6, 0.6}},
			[]int{0, 1, 2, 4}},
		// Too few are inside: the nearest of those outside comes in.
		{4, [][]float64{{4, 0.5, 0.5}, {0.5, 4, 0.5}, {0.5, 0.5, 4}, {0.4, 60, 90}, {0.45, 50, 80}},
			[]int{0, 1, 2, 4}},
		// 2 and 3 are dominated, and 3 is the nearer.
		{3, [][]float64{{9, 0}, {0, 9}, {9, 9}, {0, 10}}, []int{0, 1, 3}},
	} {
		s := choose(x.size, x.objectives...)
		if !slices.Equal(s.chosen, x.chosen) {
			t.Errorf("%d: %v are chosen, by hand %v", k, s.chosen, x.chosen)
		}
	}
}

// TestSettle: the first phase ends where the nadir stays, and not before.
func TestSettle(t *testing.T) {
	s, _ := New(unitBox(2, 2), Options{Evaluations: 100_000, Population: 10})
	for n := range 200 {
		s.settle([]float64{1, 2 + float64(n)/100})
	}
	if s.settled {
		t.Error("it has settled while one coordinate rises")
	}
	for n := 0; !s.settled; n++ {
		if s.settle([]float64{1, 100}); n > 49 && !s.settled {
			t.Fatalf("it has not settled after %d generations", n)
		}
	}
	short, _ := New(unitBox(2, 2), Options{Evaluations: 300, Population: 30})
	if short.stallLimit() >= 5 {
		t.Errorf("a search of ten generations waits for %d", short.stallLimit())
	}
}

func TestPow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		x, y := math.Exp(rng.NormFloat64()*5), rng.NormFloat64()*20
		want := math.Pow(x, y)
		if want > 1e200 || want < 1e-200 {
			continue
		}
		if got := pow(x, y); math.Abs(got/want-1) > 1e-12 {
			t.Fatalf("%v to the %v is %v, not %v", x, y, got, want)
		}
	}
	for _, x := range []struct{ x, y, want float64 }{
		{0, 2, 0}, {0, -1, math.MaxFloat64}, {1, 1e300, 1},
		{2, 1e4, math.MaxFloat64}, {2, -1e4, 0}, {0.5, 0, 1},
	} {
		if got := pow(x.x, x.y); got != x.want {
			t.Errorf("%v to the %v is %v", x.x, x.y, got)
		}
	}
}

func TestRefused(t *testing.T) {
	good := Options{Evaluations: 10, Population: 4}
	first := func(x ...float64) Options {
		return Options{Evaluations: 1, Population: 1, First: [][]float64{x}}
	}
	const most = math.MaxFloat64
	for want, x := range map[string]struct {
		p Problem
		o Options
	}{
		"0 lower and 0 upper":             {Problem{Objectives: 2}, good},
		"1 lower and 2 upper":             {Problem{[]float64{0}, []float64{1, 1}, 2}, good},
		"16 objectives: give 2 to 15":     {unitBox(1, 16), good},
		"1 objectives":                    {unitBox(1, 1), good},
		"a population of 0":               {unitBox(1, 2), Options{Evaluations: 1}},
		"variable 0 lies between 2 and 1": {Problem{[]float64{2}, []float64{1}, 2}, good},
		"variable 0 lies between NaN": {Problem{[]float64{math.NaN()}, []float64{1}, 2},
			good},
		"between -1.7976931348623157e+308":  {Problem{[]float64{-most}, []float64{most}, 2}, good},
		"first point 0: it has 2 variables": {unitBox(1, 2), first(1, 1)},
		"first point 0: variable 0 is 1.5":  {unitBox(1, 2), first(1.5)},
	} {
		if _, err := New(x.p, x.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q was expected: %v", want, err)
		}
	}
	for want, f := range map[string][][]float64{
		"those of 4 were asked":   {{1, 1}},
		"has 1 objectives, not 2": {{1, 1}, {1}, {1, 1}, {1, 1}},
		"objective 1 of point":    {{1, 1}, {1, math.NaN()}, {1, 1}, {1, 1}},
		"+Inf: give a finite one": {{1, 1}, {1, math.Inf(1)}, {1, 1}, {1, 1}},
	} {
		s, err := New(unitBox(1, 2), good)
		if err != nil {
			t.Fatal(err)
		}
		s.Ask()
		if err := s.Tell(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q was expected: %v", want, err)
		}
	}
}
