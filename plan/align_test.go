package plan

import (
	"math/rand/v2"
	"testing"
)

// naiveTokens computes depths from the definition.
func naiveTokens(s *Step) []token {
	out := make([]token, len(s.Ops))
	var live []int32 // by allocation
	for i, b := range s.Blocks {
		if b.Alloc < 0 {
			live = append(live, int32(i))
		}
	}
	for i, op := range s.Ops {
		if !op.Free {
			live = append(live, op.Block)
			continue
		}
		for k, b := range live {
			if b == op.Block {
				out[i] = tokenFree(len(live) - 1 - k)
				live = append(live[:k], live[k+1:]...)
				break
			}
		}
	}
	return out
}

func randomStep(r *rand.Rand, n int) *Step {
	var rec Recorder
	var live []uint64
	next := uint64(0)
	for i := 0; i < n/4; i++ {
		rec.Alloc(next, 512)
		live = append(live, next)
		next++
	}
	rec.Boundary()
	for i := 0; i < n; i++ {
		if len(live) == 0 || r.IntN(2) == 0 {
			rec.Alloc(next, 512)
			live = append(live, next)
			next++
			continue
		}
		at := r.IntN(len(live))
		rec.Free(live[at])
		live = append(live[:at], live[at+1:]...)
	}
	return rec.Boundary()
}

func TestTokensAgainstDefinition(t *testing.T) {
	for seed := uint64(0); seed < 50; seed++ {
		s := randomStep(rand.New(rand.NewPCG(seed, 3)), int(seed)*4)
		got, want := s.tokens(), naiveTokens(s)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d: token %d is %d, want %d", seed, i, got[i], want[i])
			}
		}
	}
}

// longest is the length of the longest common subsequence, by its definition.
func longest(a, b []token) int {
	row := make([]int, len(b)+1)
	for i := range a {
		last := 0
		for j := range b {
			old := row[j+1]
			if a[i] == b[j] {
				row[j+1] = last + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			last = old
		}
	}
	return row[len(b)]
}

func checkAlign(t *testing.T, a, b []token) {
	t.Helper()
	to, last, matched := align(a, b), unaligned, 0
	for i, j := range to {
		if j == unaligned {
			continue
		}
		if j <= last || a[i] != b[j] {
			t.Fatalf("align(%v, %v): %v: place %d", a, b, to, i)
		}
		last = j
		matched++
	}
	if want := longest(a, b); matched != want {
		t.Fatalf("align(%v, %v) matches %d tokens, a shortest script matches %d", a, b, matched, want)
	}
}

func TestAlignIsShortest(t *testing.T) {
	for seed := uint64(0); seed < 3000; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		a, b := make([]token, r.IntN(int(seed)/50+2)), make([]token, r.IntN(int(seed)/50+2))
		kinds := 1 + r.IntN(5)
		for _, v := range [][]token{a, b} {
			for i := range v {
				v[i] = token(r.IntN(kinds))
			}
		}
		checkAlign(t, a, b)
	}
}

func FuzzAlign(f *testing.F) {
	f.Add([]byte("abcabba"), []byte("cbabac"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, b := make([]token, min(len(x), 200)), make([]token, min(len(y), 200))
		for i := range a {
			a[i] = token(x[i] % 6)
		}
		for i := range b {
			b[i] = token(y[i] % 6)
		}
		checkAlign(t, a, b)
	})
}

// TestAlignCapped: two long rows with nothing in common but one kind of token are
// cut short of the shortest script and must still be aligned in order.
func TestAlignCapped(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	a, b := make([]token, 30_000), make([]token, 41_000)
	for _, v := range [][]token{a, b} {
		for i := range v {
			v[i] = token(r.IntN(20))
		}
	}
	last, matched := unaligned, 0
	for i, j := range align(a, b) {
		if j == unaligned {
			continue
		}
		if j <= last || a[i] != b[j] {
			t.Fatalf("place %d aligned with %d behind %d", i, j, last)
		}
		last = j
		matched++
	}
	if matched < len(a)/4 {
		t.Errorf("%d of %d places aligned", matched, len(a))
	}
}
