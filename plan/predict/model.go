package predict

import (
	"math"

	"stalloc/internal/mem"
)

const (
	// exactError is by how much a size may miss an affine model of its features. Rows are
	// padded to some bytes.
	exactError = 16
	// boundError is by what part it may miss one that gives a bound: batches are padded to
	// 128 rows.
	boundError = 0.008
	// leastMargin is the part by which a bound lies above its model where that fitted well.
	leastMargin = 0.0002
)

// models derive the sizes of a step from its features, by what the last steps of its kind
// asked for. For each position the first one that fits counts: the size is always the
// same; it was the same whenever the features were these; it is affine in one feature; in
// two; affine but for a small part, as a bound.
type models struct {
	n      int // steps
	rows   [history]*observation
	now    [features]mem.Bytes
	same   [history]bool // the step had the features of the running one
	sames  int
	affine []affine
	known  [knownRows]knownRow
	round  uint32
}

// knownRows: positions often have the sizes of another one in all steps, so what was
// derived for one row of sizes is kept.
const knownRows = 256

type knownRow struct {
	round uint32
	sizes [history]mem.Bytes
	p     Position
}

// affine is a set of one or two features that sizes may be affine in, with what least
// squares need of them.
type affine struct {
	two    bool
	spare  int              // steps beyond those that any such model fits
	x, y   [history]float64 // from their mean
	atX    float64          // of the running step, from the mean
	atY    float64
	xx, xy float64 // inverse of the matrix of products
	yy     float64
}

func (m *models) prepare(kd *kind, now [features]mem.Bytes) {
	m.n = min(kd.count, history)
	m.now = now
	m.sames = 0
	m.round++
	for i := range m.n {
		m.rows[i] = kd.latest(i)
		m.same[i] = m.rows[i].features == now
		if m.same[i] {
			m.sames++
		}
	}
	m.affine = m.affine[:0]
	for i := range features {
		m.add(i, i)
	}
	for i := range features {
		for j := range i {
			m.add(i, j)
		}
	}
}

// add makes the affine model of the features i and j, of one feature if they are one,
// unless the steps do not tell enough about it.
func (m *models) add(i, j int) {
	var a affine
	a.two = i != j
	a.x, a.atX = m.centred(i)
	a.spare = m.distinct(i, j) - 2
	if a.two {
		a.spare--
	}
	if a.spare < 1 {
		return
	}
	var xx, xy, yy float64
	if a.two {
		a.y, a.atY = m.centred(j)
	}
	for k := range m.n {
		xx += a.x[k] * a.x[k]
		xy += a.x[k] * a.y[k]
		yy += a.y[k] * a.y[k]
	}
	if !a.two {
		a.xx = 1 / xx
		m.affine = append(m.affine, a)
		return
	}
	det := xx*yy - xy*xy
	if det <= 1e-6*xx*yy {
		return // one feature follows from the other
	}
	a.xx, a.xy, a.yy = yy/det, -xy/det, xx/det
	m.affine = append(m.affine, a)
}

// centred returns a feature of all steps, and of the running one, from its mean.
func (m *models) centred(i int) (x [history]float64, at float64) {
	mean := 0.0
	for k := range m.n {
		mean += float64(m.rows[k].features[i])
	}
	mean /= float64(m.n)
	for k := range m.n {
		x[k] = float64(m.rows[k].features[i]) - mean
	}
	return x, float64(m.now[i]) - mean
}

// distinct counts the different pairs of two features.
func (m *models) distinct(i, j int) (n int) {
	for k := range m.n {
		again := false
		for h := range k {
			a, b := &m.rows[k].features, &m.rows[h].features
			again = again || a[i] == b[i] && a[j] == b[j]
		}
		if !again {
			n++
		}
	}
	return n
}

// size derives the size of a position.
func (m *models) size(position int) Position {
	var row [history]mem.Bytes
	constant := true
	hash := uint64(0)
	for k := range m.n {
		row[k] = m.rows[k].sizes[position]
		constant = constant && row[k] == row[0]
		hash = (hash ^ uint64(row[k])) * 0x9E3779B97F4A7C15
	}
	if constant && (m.n > 1 || m.sames > 0) {
		return Position{Size: mem.Round(row[0])}
	}
	known := &m.known[hash>>56]
	if known.round != m.round || known.sizes != row {
		*known = knownRow{m.round, row, m.varying(&row)}
	}
	return known.p
}

// varying derives a size that is not the same in all steps.
func (m *models) varying(row *[history]mem.Bytes) Position {
	if m.sames > 0 {
		return m.whenSame(row)
	}
	least, most := row[0], row[0]
	for _, size := range row[:m.n] {
		least, most = min(least, size), max(most, size)
	}
	bound := math.Inf(1)
	for i := range m.affine {
		at, miss, part := m.affine[i].at(row, m.n)
		if size := mem.Bytes(math.Ceil(at - 0.5)); miss <= exactError {
			if miss > 0.5 {
				size += exactError
			}
			if within(size, least, most) {
				return Position{Size: mem.Round(size)}
			}
			return Position{}
		}
		if spare := m.affine[i].spare; part <= boundError && spare > 1 {
			// The fewer steps, the less they say about how far the next one will be off.
			margin := (2 + 4/float64(spare)) * part
			bound = min(bound, at*(1+max(min(margin, boundError), leastMargin)))
		}
	}
	if size := mem.Bytes(min(bound, 1<<60)); within(size, least, most) {
		return Position{Size: mem.Round(size), Bound: true}
	}
	return Position{}
}

// whenSame returns the size in the steps of the same features, if it was one.
func (m *models) whenSame(row *[history]mem.Bytes) Position {
	size := mem.Bytes(0)
	for k := range m.n {
		if !m.same[k] {
			continue
		}
		if size != 0 && size != row[k] {
			return Position{}
		}
		size = row[k]
	}
	return Position{Size: mem.Round(size)}
}

// at returns the size of the running step by least squares, and by how much they
// miss a size, in bytes and as a part of it.
func (a *affine) at(row *[history]mem.Bytes, n int) (at, miss, part float64) {
	mean := 0.0
	for k := range n {
		mean += float64(row[k])
	}
	mean /= float64(n)
	var sx, sy float64
	for k := range n {
		s := float64(row[k]) - mean
		sx += a.x[k] * s
		sy += a.y[k] * s
	}
	bx, by := a.xx*sx+a.xy*sy, a.xy*sx+a.yy*sy
	for k := range n {
		e := math.Abs(float64(row[k]) - mean - bx*a.x[k] - by*a.y[k])
		miss, part = max(miss, e), max(part, e/float64(row[k]))
	}
	return mean + bx*a.atX + by*a.atY, miss, part
}
