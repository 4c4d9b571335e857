package predict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// naive does what Learner does, up to the forecasts, with lists and strings: it keeps all
// kinds, for ever.
type naive struct {
	known  map[string]*[]naiveStep // by tokens
	order  []string                // of known
	tokens strings.Builder
	step   naiveStep
	live   []*naiveBlock // by age
	valley mem.Bytes
	rails  int
	steps  int
}

type naiveStep struct {
	sizes []mem.Bytes
	ends  []int // 0: with the step
}

type naiveBlock struct {
	size    mem.Bytes
	step    int
	ordinal int
	live    bool
}

func (n *naive) load() (sum mem.Bytes) {
	for _, b := range n.live {
		sum += b.size
	}
	return sum
}

// goesOn says whether a known kind begins with the tokens of the step and these.
func (n *naive) goesOn(more string) bool {
	return slices.ContainsFunc(n.order, func(k string) bool { return strings.HasPrefix(k, n.tokens.String()+more) })
}

func (n *naive) token(t string) {
	n.tokens.WriteString(t)
	if n.goesOn("") {
		n.rails++
	}
}

func (n *naive) alloc(size mem.Bytes) *naiveBlock {
	if n.load() <= n.valley && len(n.step.sizes) >= shortest && n.rails >= shortest && !n.goesOn("A") {
		n.boundary()
	}
	b := &naiveBlock{mem.Round(size), n.steps, len(n.step.sizes), true}
	n.live = append(n.live, b)
	n.step.sizes, n.step.ends = append(n.step.sizes, size), append(n.step.ends, 0)
	n.token("A")
	return b
}

func (n *naive) free(b *naiveBlock) {
	if !b.live {
		return
	}
	b.live = false
	i := slices.Index(n.live, b)
	depth := len(n.live) - 1 - i
	n.live = slices.Delete(n.live, i, i+1)
	n.valley = min(n.valley, n.load())
	n.token(string(rune('a' + min(depth, maxDepth))))
}

func (n *naive) done(b *naiveBlock) {
	n.free(b)
	if b.step == n.steps {
		n.step.ends[b.ordinal] = n.tokens.Len()
	}
}

func (n *naive) boundary() {
	if len(n.step.sizes) > features {
		k := n.tokens.String()
		if n.known[k] == nil {
			n.known[k] = &[]naiveStep{}
			n.order = append(n.order, k)
		}
		for i, end := range n.step.ends {
			if end == 0 {
				n.step.ends[i] = len(k)
			}
		}
		*n.known[k] = append(*n.known[k], n.step)
	}
	n.step = naiveStep{}
	n.tokens.Reset()
	n.rails, n.valley = 0, n.load()
	n.steps++
}

// same compares the two, until there are more kinds than the Learner keeps.
func (n *naive) same(l *Learner) error {
	if len(n.order) > maxKinds {
		return nil // Learner has forgotten one
	}
	if l.load != n.load() || l.valley != n.valley || len(l.run.tokens) != n.tokens.Len() || l.run.onRails != n.rails {
		return fmt.Errorf("load %v, valley %v, %d tokens, %d of a kind, expected %v, %v, %d, %d",
			l.load, l.valley, len(l.run.tokens), l.run.onRails, n.load(), n.valley, n.tokens.Len(), n.rails)
	}
	for i, t := range n.tokens.String() {
		if got := l.run.tokens[i]; t == 'A' && got != request || t != 'A' && int(got) != int(t-'a') {
			return fmt.Errorf("token %d is %d, expected %c", i, got, t)
		}
	}
	for k := range l.kinds {
		kd := &l.kinds[k]
		if kd.count == 0 {
			continue
		}
		var s strings.Builder
		for _, t := range kd.tokens {
			if t == request {
				s.WriteByte('A')
			} else {
				s.WriteByte('a' + t)
			}
		}
		if l.alive.has(k) != strings.HasPrefix(s.String(), n.tokens.String()) {
			return fmt.Errorf("after %q kind %q is possible: %v", n.tokens.String(), s.String(), l.alive.has(k))
		}
		steps := n.known[s.String()]
		if steps == nil {
			return fmt.Errorf("no step was %q", s.String())
		}
		for ago := range min(kd.count, history) {
			got, want := kd.latest(ago), (*steps)[len(*steps)-1-ago]
			if !slices.Equal(got.sizes, want.sizes) || !slices.EqualFunc(got.ends, want.ends, func(a int32, b int) bool { return int(a) == b }) {
				return fmt.Errorf("kind %q, %d steps ago: %+v, expected %+v", s.String(), ago, got, want)
			}
		}
	}
	return nil
}

// TestAgainstNaive runs programs of a few kinds of step, some of them disturbed, and
// without boundaries at times.
func TestAgainstNaive(t *testing.T) {
	split, forecasts := 0, 0
	for seed := range uint64(300) {
		l, n, err := lockstep(rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		split += l.counts.Steps - n
		forecasts += l.counts.Forecasts
	}
	t.Logf("%d steps began at a valley, %d forecasts", split, forecasts)
	if split < 100 || forecasts < 1000 {
		t.Error("the programs miss what they are for")
	}
}

func FuzzAgainstNaive(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if _, _, err := lockstep(rand.New(rand.NewPCG(a, b))); err != nil {
			t.Fatal(err)
		}
	})
}

// lockstep drives both through a random program and returns how many steps it marked.
func lockstep(rng *rand.Rand) (*Learner, int, error) {
	l, n := New(), &naive{known: map[string]*[]naiveStep{}}
	// A kind of step is a seed: what it does follows from it and from two parameters.
	seeds := make([]uint64, 1+rng.IntN(3))
	for i := range seeds {
		seeds[i] = rng.Uint64()
	}
	noise := []float64{0, 0, 0.002, 0.05}[rng.IntN(4)]
	marked := 0
	var f Forecast
	for range 12 + rng.IntN(12) {
		kind := rand.New(rand.NewPCG(seeds[rng.IntN(len(seeds))], 0))
		scale := mem.Bytes(2 + rng.IntN(3))
		type pair struct {
			r Ref
			b *naiveBlock
		}
		var live, late []pair
		for i := range 70 + kind.IntN(100) {
			for kind.IntN(2) == 0 && len(live) > 0 {
				k := kind.IntN(len(live))
				if rng.Float64() < noise {
					k = 0
				}
				p := live[k]
				live = slices.Delete(live, k, k+1)
				l.Free(p.r)
				n.free(p.b)
				late = append(late, p)
			}
			for len(late) > kind.IntN(4) {
				l.Done(late[0].r)
				n.done(late[0].b)
				late = late[1:]
			}
			size := mem.Bytes(kind.IntN(100)+2) * mem.MiB
			if kind.IntN(2) == 0 {
				size *= scale
			}
			if i < features {
				size = scale * 100 * mem.MiB
			}
			if rng.Float64() < noise {
				size++
			}
			r, m := l.Alloc(size)
			live = append(live, pair{r, n.alloc(size)})
			if err := consistent(l, &f, m, size); err != nil {
				return l, marked, err
			}
			if i%16 == 0 {
				if err := n.same(l); err != nil {
					return l, marked, err
				}
			}
		}
		for _, p := range append(late, live...) {
			l.Done(p.r)
			n.done(p.b)
		}
		if rng.IntN(4) > 0 {
			marked++
			l.Boundary()
			n.boundary()
		}
		if err := n.same(l); err != nil {
			return l, marked, err
		}
	}
	return l, marked, nil
}

// consistent holds a match and its forecast to what callers rely on.
func consistent(l *Learner, f *Forecast, m Match, size mem.Bytes) error {
	if m.Forecast == 0 {
		return nil
	}
	if !l.Forecast(f) || f.Number != m.Forecast || int(m.Position) != len(l.run.begins)-1 {
		return fmt.Errorf("match %+v of forecast %d at request %d", m, f.Number, len(l.run.begins))
	}
	last := mem.Tick(-1)
	for i, p := range f.Positions {
		if p.Begin <= last || p.End <= p.Begin || p.End > maxEvents || p.Size < 0 || p.Size%mem.Grain != 0 {
			return fmt.Errorf("position %d: %+v behind %d", i, p, last)
		}
		last = p.Begin
	}
	if p := f.Positions[m.Position]; p.Size < size || p.Size > 2*size {
		return fmt.Errorf("a request of %v matched %+v", size, p)
	}
	return nil
}
