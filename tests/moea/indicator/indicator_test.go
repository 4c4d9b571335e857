package indicator

import (
	"math"
	"testing"
)

func TestIGD(t *testing.T) {
	front := [][]float64{{0, 1}, {0.5, 0.5}, {1, 0}}
	if got := IGD(front, front); got != 0 {
		t.Errorf("the front itself: %v", got)
	}
	// 3-4-5 triangles: the nearest of the two to the three points are 5, 4 and 3 away.
	got := IGD([][]float64{{0, 0}, {3, 0}, {0, 1}}, [][]float64{{3, 4}, {30, 40}})
	if want := (5 + 4 + math.Sqrt(18)) / 3; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestVolume(t *testing.T) {
	v := NewVolume([][]float64{{0, 0, 10}, {1, 2, 0}}, 100_000)
	// In units of the box of 1.1 × 2.2 × 11: a point at the middle dominates an eighth.
	half := []float64{0.55, 1.1, 5.5}
	for want, set := range map[float64][][]float64{
		0:        {{2, 0, 0}, {1.2, 0, 0}},
		0.125:    {half, {1, 2, 10}},
		1:        {{0, 0, 0}, half},
		7. / 16.: {{0.55, 0, 5.5}, {0, 1.1, 5.5}, {0.55, 1.1, 2.75}},
	} {
		if got := v.Of(set); math.Abs(got-want) > 0.005 {
			t.Errorf("%v: %v, expected %v", set, got, want)
		}
	}
}
