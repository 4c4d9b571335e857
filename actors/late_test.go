package actors

import (
	"testing"

	"stalloc/internal/mem"
)

// trainer is a training loop that clears its gradients at the beginning of an
// iteration or at its end.
type trainer struct {
	*kit
	atEnd     bool
	gradients []mem.Addr
}

const (
	layers   = 60
	perLayer = 3 // gradients: more than a tape bears to be freed late
	// The batch comes before the valley and crosses the boundary: the pool has it.
	nearlyAll = 0.99
)

func (l *trainer) clear() {
	l.release(l.gradients...)
	l.gradients = nil
}

// forward returns what a backward pass needs.
func (l *trainer) forward() (live []mem.Addr) {
	for i := range layers {
		live = append(live, l.malloc(mem.Bytes(i%7+2)*mem.MiB))
		l.play(3 * mem.MiB)
	}
	return live
}

// train runs an iteration and returns which share of its requests were hits. Where
// it is marked the gradients are live, unless they are cleared at the end.
func (l *trainer) train() float64 {
	l.t.Helper()
	before := l.Stats()
	batch := l.malloc(mem.MiB)
	if !l.atEnd {
		l.clear()
	}
	live := l.forward()
	for i := layers - 1; i >= 0; i-- {
		for range perLayer {
			l.gradients = append(l.gradients, l.malloc(mem.Bytes(i%5+1)*mem.MiB/2))
		}
		l.release(live[i])
	}
	l.release(batch)
	if l.atEnd {
		l.clear()
	}
	l.boundary()
	l.gpu.Finish(0)
	return float64(l.Stats().Hits-before.Hits) / ((2+perLayer)*layers + 1)
}

// evaluate runs a forward pass between two marks.
func (l *trainer) evaluate() {
	l.t.Helper()
	l.release(l.forward()...)
	l.boundary()
}

// reserves fails if much more is reserved than the largest load: a fiftieth, and a handle.
func (l *trainer) reserves() {
	l.t.Helper()
	_, peak := l.Load()
	if s := l.Stats(); s.PeakReserved > peak+peak/50+8*mem.HandleSize {
		l.t.Errorf("%v are reserved for a load of %v", s.PeakReserved, peak)
	}
}

// TestGradientsClearedInTheNextStep: the most usual loop marks its steps while its
// gradients are live.
func TestGradientsClearedInTheNextStep(t *testing.T) {
	l := &trainer{kit: newKit(t, Options{})}
	for i := range 20 {
		if hits := l.train(); i >= 8 && hits < nearlyAll {
			t.Errorf("step %d: %.3f of the requests are hits", i, hits)
		}
	}
	l.reserves()
	l.clear()
}

// TestTheNextRunKnowsTheValley: the second start has hits from its first request on,
// over boundaries at marks and in valleys.
func TestTheNextRunKnowsTheValley(t *testing.T) {
	cache := t.TempDir()
	for start := range 2 {
		l := &trainer{kit: newKit(t, Options{Cache: cache})}
		for i := range 20 {
			// Until the valley is known every other request is one of the prologue.
			if hits := l.train(); (start > 0 || i >= 8) && hits < 0.98 {
				t.Errorf("start %d, step %d: %.3f of the requests are hits", start+1, i, hits)
			}
		}
		l.reserves()
		l.clear()
	}
}

// TestGradientsStayFromSomeStepOn has a plan from mark to mark when the boundaries move.
func TestGradientsStayFromSomeStepOn(t *testing.T) {
	l := &trainer{kit: newKit(t, Options{}), atEnd: true}
	for range 10 {
		l.train()
	}
	l.atEnd = false
	for i := range 30 {
		if hits := l.train(); i >= 15 && hits < nearlyAll {
			t.Errorf("step %d: %.3f of the requests are hits", i, hits)
		}
	}
	l.clear()
}

// TestEvaluationsBetween has steps of another kind behind some marks: the plan stays for
// those that it was made for.
func TestEvaluationsBetween(t *testing.T) {
	l := &trainer{kit: newKit(t, Options{})}
	sum, n := 0.0, 0.0
	for i := range 40 {
		if i%4 == 3 {
			l.evaluate()
		}
		if hits := l.train(); i >= 20 {
			sum, n = sum+hits, n+1
		}
	}
	if sum < 0.9*n {
		t.Errorf("%.3f of the requests in training steps are hits", sum/n)
	}
	l.reserves()
	l.clear()
}

// TestMarksAreBelievedAgain changes where the gradients are cleared.
func TestMarksAreBelievedAgain(t *testing.T) {
	l := &trainer{kit: newKit(t, Options{})}
	for range 12 {
		l.train()
	}
	if l.late.valley.Load() == nil {
		t.Error("steps do not end late")
	}
	l.clear()
	l.atEnd = true
	var hits float64
	for range 14 {
		hits = l.train()
	}
	if l.late.valley.Load() != nil || hits < nearlyAll {
		t.Errorf("late: %t; %.3f of the requests are hits", l.late.valley.Load() != nil, hits)
	}
	l.reserves()
}
