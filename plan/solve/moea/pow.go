package moea

import "math"

// pow returns x to the y for x of at least 0. Package math's differs in the last bit between
// machines, where it is written in assembly or the compiler fuses a product with a sum; each
// product here is rounded.
func pow(x, y float64) float64 {
	switch {
	case x <= 0:
		if y < 0 {
			return math.MaxFloat64
		}
		return 0
	case x == 1:
		return 1
	}
	// log2 x = e + log2 m, with m near 1, by the series of the inverse hyperbolic tangent.
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	t := (m - 1) / (m + 1)
	square, term, sum := float64(t*t), t, 0.0
	for k := 1; k < 40; k += 2 {
		sum += term / float64(k)
		term = float64(term * square)
	}
	log := float64(e) + float64(sum*(2/math.Ln2))
	z := float64(log * y)
	if z > 1000 {
		return math.MaxFloat64
	} else if z < -1000 {
		return 0
	}
	whole := math.Floor(z + 0.5)
	r := float64((z - whole) * math.Ln2)
	term, sum = 1, 1
	for k := 1; k < 20; k++ {
		term = float64(term*r) / float64(k)
		sum += term
	}
	return math.Ldexp(sum, int(whole))
}
