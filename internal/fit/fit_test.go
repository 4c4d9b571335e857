package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func through(t *testing.T, points ...Point) Line {
	t.Helper()
	l, err := Through(points)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLargest: against a search of every size, on random lines and figures that are off by
// less than their tolerance. What truly fits lies between Low and High.
func TestLargest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	told := 0
	for range 2000 {
		fixed, each, tolerance := 50*random.Float64(), 0.5+5*random.Float64(), 0.2*random.Float64()
		unit, capacity := 1+random.Int64N(4), 20+200*random.Float64()
		truth := func(size int64) float64 { return fixed + each*float64(size) }
		var points []Point
		for size := 1 + random.Int64N(5); len(points) < 2+int(random.Int64N(3)); size += 1 +
			random.Int64N(5) {
			points = append(points,
				Point{float64(size), truth(size) + tolerance*(2*random.Float64()-1), tolerance})
		}
		if len(points) < 2 {
			continue
		}
		l := through(t, points...)
		r, err := l.Largest(capacity, unit)
		if err != nil {
			continue
		}
		told++
		fits := int64(0)
		for truth(fits+unit) <= capacity {
			fits += unit
		}
		if fits < r.Low || fits > r.High || r.Best < r.Low || r.Best > r.High || r.Best%unit != 0 {
			t.Fatalf("%v of %v+%v a unit, tolerance %v, points %v: %+v, truly %d", capacity, fixed,
				each, tolerance, points, r, fits)
		}
	}
	if told < 1000 {
		t.Errorf("told of %d of 2000 only", told)
	}
}

// TestParabola: three evenly spaced points of what grows with the square tell how far off a
// line is, as far out as it says anything.
func TestParabola(t *testing.T) {
	truth := func(size float64) float64 { return 1000 + 100*size + 0.5*size*size }
	var points []Point
	for _, size := range []float64{4, 8, 12} {
		points = append(points, Point{Size: size, Memory: truth(size)})
	}
	l := through(t, points...)
	if l.Residual == 0 || !l.Checked {
		t.Fatalf("%+v", l)
	}
	for size := 0.0; size < 200; size++ {
		if off := math.Abs(l.At(size) - truth(size)); off > l.Error(size)+1e-9 {
			t.Errorf("at %v it is off by %v, and says %v", size, off, l.Error(size))
		}
	}
}

func TestWhatCannotBeTold(t *testing.T) {
	for _, c := range []struct {
		points   []Point
		capacity float64
		want     string
	}{
		{[]Point{{4, 10, 0}, {8, 10, 0}}, 100, "no more memory"},
		{[]Point{{4, 10, 1}, {8, 11, 1}}, 100, "no more memory"},
		{[]Point{{4, 12, 0}, {8, 10, 0}}, 100, "no more memory"},
		{[]Point{{4, 10, 0}, {8, 30, 0}}, 100, "less than nothing"},
		{[]Point{{1, 10, 0}, {2, 11, 0}}, 1000, "more than 16 times"},
		{[]Point{{1, 10, 0}, {2, 12, 0}, {3, 18, 0}}, 60, "off by"},
	} {
		if r, err := through(t, c.points...).Largest(c.capacity, 1); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %+v, error %v, expected %q", c.points, r, err, c.want)
		}
	}
	if _, err := Through([]Point{{4, 10, 0}, {4, 11, 0}}); err == nil ||
		!strings.Contains(err.Error(), "one size alone") {
		t.Error(err)
	}
	if r, err := through(t, Point{4, 10, 0}, Point{8, 14, 0}).Largest(5, 1); err != nil ||
		r.Best != 0 {
		t.Errorf("%+v, error %v: nothing fits", r, err)
	}
}

// TestBend: the peak is in another part of the step at larger sizes. A line through the points is
// far off there, what runs that are made up need is not.
func TestBend(t *testing.T) {
	truth := func(size float64) float64 { return max(100+size, 40+10*size) }
	var points []Point
	for _, size := range []float64{2, 6, 10} {
		points = append(points, Point{Size: size, Memory: truth(size)})
	}
	if r, err := through(t, points...).Largest(1000, 1); err == nil {
		t.Fatalf("a line tells %+v", r)
	}
	l, err := Along(points, truth)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := l.Largest(1000, 1); err != nil || r != (Range{96, 96, 96}) {
		t.Errorf("%+v, error %v", r, err)
	}
	if fixed, each := l.Tangent(96); fixed != 40 || each != 10 {
		t.Errorf("%v and %v each", fixed, each)
	}
	points[1].Memory += 5 // a recorded run that is not as one is made up
	if l, _ = Along(points, truth); l.Residual != 5 {
		t.Errorf("off by %v", l.Residual)
	}
}
