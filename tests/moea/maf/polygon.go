package maf

import (
	"math"
	"math/rand/v2"
)

// place is a point of the plane.
type place [2]float64

// reach is how far the variables of maf8 and maf9 go to each side of a polygon of radius 1.
const reach = 10_000

func (p *Problem) planar() {
	p.Lower, p.Upper = []float64{-reach, -reach}, []float64{reach, reach}
}

// polygon returns the corners of a regular polygon, clockwise, the last at the top.
func polygon(m int) (corners []place) {
	for i := range m {
		angle := math.Pi/2 - 2*math.Pi*float64(i+1)/float64(m)
		corners = append(corners, place{math.Cos(angle), math.Sin(angle)})
	}
	return corners
}

// maf8 has the distances from the corners of a polygon; its front is all that lies inside.
func maf8(p *Problem) {
	p.planar()
	corners := polygon(p.Objectives)
	p.values = func(x, f []float64) {
		for j, c := range corners {
			f[j] = math.Hypot(x[0]-c[0], x[1]-c[1])
		}
	}
	p.front = func(points int) [][]float64 { return p.within(corners, points) }
}

// maf9 has the distances from the lines through the edges of a polygon. Outside are places that are
// as good as those inside; who is there is sent away, to a place that depends on x alone, so that
// this is a function.
func maf9(p *Problem) {
	p.planar()
	m := p.Objectives
	corners := polygon(m)
	bad := mirrored(corners)
	allowed := func(at place) bool {
		if inside(at, corners) {
			return true
		}
		for _, area := range bad {
			if inside(at, area) {
				return false
			}
		}
		return true
	}
	p.values = func(x, f []float64) {
		at := place{x[0], x[1]}
		if !allowed(at) {
			rng := rand.New(rand.NewPCG(math.Float64bits(x[0]), math.Float64bits(x[1])))
			for !allowed(at) {
				at = place{reach * (2*rng.Float64() - 1), reach * (2*rng.Float64() - 1)}
			}
		}
		for j := range f {
			f[j] = toLine(at, corners[j], corners[(j+1)%m])
		}
	}
	p.front = func(points int) [][]float64 { return p.within(corners, points) }
}

// mirrored returns the areas that maf9 sends away from. Take two edges of the polygon with others
// between them: the chain of corners between, and that chain mirrored at where the lines of the two
// edges meet.
func mirrored(corners []place) (areas [][]place) {
	m := len(corners)
	for head := range m {
		for length := 1; length <= (m+1)/2-2; length++ {
			corner := func(i int) place { return corners[((head+i)%m+m)%m] }
			meet := crossing(corner(-1), corner(0), corner(length), corner(length+1))
			var area []place
			for i := range length + 1 {
				area = append(area, corner(i))
			}
			for _, c := range area {
				area = append(area, place{2*meet[0] - c[0], 2*meet[1] - c[1]})
			}
			areas = append(areas, area)
		}
	}
	return areas
}

// crossing returns where the lines a b and c d meet.
func crossing(a, b, c, d place) place {
	ux, uy, vx, vy := b[0]-a[0], b[1]-a[1], d[0]-c[0], d[1]-c[1]
	t := ((c[0]-a[0])*vy - (c[1]-a[1])*vx) / (ux*vy - uy*vx)
	return place{a[0] + t*ux, a[1] + t*uy}
}

// inside reports whether a place lies in an area or on its edge.
func inside(at place, area []place) bool {
	odd := false
	for i, a := range area {
		b := area[(i+1)%len(area)]
		cross := (b[0]-a[0])*(at[1]-a[1]) - (b[1]-a[1])*(at[0]-a[0])
		along := (at[0]-a[0])*(at[0]-b[0]) + (at[1]-a[1])*(at[1]-b[1])
		if math.Abs(cross) < 1e-12 && along <= 0 {
			return true
		}
		if (a[1] > at[1]) != (b[1] > at[1]) && at[0] < a[0]+(at[1]-a[1])/(b[1]-a[1])*(b[0]-a[0]) {
			odd = !odd
		}
	}
	return odd
}

func toLine(at, a, b place) float64 {
	cross := (a[0]-at[0])*(b[1]-at[1]) - (b[0]-at[0])*(a[1]-at[1])
	return math.Abs(cross) / math.Hypot(a[0]-b[0], a[1]-b[1])
}

// within returns the values of a grid over what lies inside.
func (p *Problem) within(area []place, points int) (out [][]float64) {
	for _, x := range grid(2, points) {
		x = []float64{2*x[0] - 1, 2*x[1] - 1}
		if inside(place{x[0], x[1]}, area) {
			out = append(out, p.Evaluate(x))
		}
	}
	return out
}
