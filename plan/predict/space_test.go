package predict

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// TestSpaceAgainstNaive: requests lie where they are wished, else in the smallest gap, the lowest of
// that size, and what has ended is free again.
func TestSpaceAgainstNaive(t *testing.T) {
	const units = 300
	rng := rand.New(rand.NewPCG(5, 6))
	served, wished := 0, 0
	for range 50 {
		var until [units]mem.Tick // by unit
		var known []Obstacle
		for at := 0; at < units; {
			end := min(at+1+rng.IntN(20), units)
			x := Obstacle{From: mem.Offset(at), To: mem.Offset(end)}
			switch rng.IntN(3) {
			case 0:
				x.Until = mem.Tick(rng.IntN(60))
			case 1:
				x.Until = Never
			}
			if x.Until != Never || rng.IntN(2) == 0 { // else nobody says so
				known = append(known, x)
			}
			for ; at < end; at++ {
				until[at] = x.Until
			}
		}
		rng.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		s := NewSpace(known)
		top := int(s[len(s)-1].To)
		for now := range mem.Tick(40) {
			size, wish := 1+rng.IntN(12), rng.IntN(units)
			free := func(from, to int) bool {
				for at := from; at < to; at++ {
					if at >= top || until[at] > now {
						return false
					}
				}
				return true
			}
			want, gap := -1, units+1
			for at, end := 0, 0; at < top; at = end + 1 {
				for end = at; end < top && until[end] <= now; end++ {
				}
				if n := end - at; n >= size && n < gap {
					want, gap = at, n
				}
			}
			if free(wish, wish+size) {
				want = wish
				wished++
			}
			end := now + 1 + mem.Tick(rng.IntN(20))
			got := s.Serve(Position{Size: mem.Bytes(size), Begin: now, End: end}, mem.Offset(wish))
			if int(got) != want {
				t.Fatalf("at %d %d units, wished at %d, lie at %d, expected %d", now, size, wish, got, want)
			}
			if want < 0 {
				continue
			}
			served++
			for at := want; at < want+size; at++ {
				until[at] = end
			}
		}
	}
	if served < 500 || wished < 50 {
		t.Errorf("only %d requests were served, %d of them as wished", served, wished)
	}
}
