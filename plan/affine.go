package plan

import "stalloc/internal/mem"

// In a step whose sizes move together with one parameter, such as the length of
// its sequences or the resolution of its images, every position of a step is as
// far from the smallest to the largest size it ever had as every other. Such a
// step is planned for its largest sizes: its own peak is then what a step of the
// largest parameter takes, and no smaller step takes more.

// scaleTolerance is how far a size may be from the one foreseen: both ends of
// the interpolation and the size itself are rounded.
const scaleTolerance = 2 * mem.Grain

// scaled tells which of the varying positions move together. None do unless
// nearly all do, since where sizes vary for other reasons, an envelope of the
// largest sizes would take memory that no step needs at once. Two steps cannot
// contradict each other and so prove nothing.
func scaled(seen []sighting, steps int) []bool {
	if steps < 3 {
		return nil
	}
	widest := -1
	for i, s := range seen {
		if len(s.sizes) == steps && !s.fixed() && (widest < 0 || s.most-s.least > seen[widest].most-seen[widest].least) {
			widest = i
		}
	}
	if widest < 0 || !seen[widest].threeSizes() {
		return nil
	}
	out := make([]bool, len(seen))
	var varies, together, bytes, bytesTogether float64
	for i, s := range seen {
		if s.fixed() {
			continue
		}
		varies++
		bytes += float64(s.most)
		if out[i] = s.follows(seen[widest]); out[i] {
			together++
			bytesTogether += float64(s.most)
		}
	}
	if together < 0.9*varies || bytesTogether < 0.9*bytes {
		return nil
	}
	return out
}

// follows reports whether the sizes of s are those of w, on another scale.
func (s sighting) follows(w sighting) bool {
	if len(s.sizes) != len(w.sizes) {
		return false
	}
	for k, size := range s.sizes {
		share := float64(w.sizes[k]-w.least) / float64(w.most-w.least)
		foreseen := s.least + mem.Bytes(share*float64(s.most-s.least))
		if size < foreseen-scaleTolerance || size > foreseen+scaleTolerance {
			return false
		}
	}
	return true
}

// threeSizes reports whether the position had at least three sizes.
func (s sighting) threeSizes() bool {
	for _, size := range s.sizes {
		if size != s.least && size != s.most {
			return true
		}
	}
	return false
}
