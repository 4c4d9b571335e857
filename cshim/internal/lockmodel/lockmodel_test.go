// Package lockmodel walks every state of the protocols by which goroutines and threads
// of C take a device's lock (cshim/fast/lock.h, host.Lock): threads of C sleep and are woken, and
// goroutines come back to Go while the collector stops the
// world. It knows Go's runtime as of 1.26: a goroutine that calls C looks for the
// collector, and counts as being in a system call a moment later (reentersyscall); the
// collector takes the processors of those that are in system calls once, as it begins
// (stopTheWorldWithSema), and the monitor, which does it otherwise, sleeps meanwhile.
// A thread of the program's that has called Go before is like a goroutine in C: what sleeps
// there goes to Go now and then (stalloc_nudge), which is its bound.
package lockmodel

import "testing"

const (
	goroutines = 3
	outsider   = goroutines // a thread of C that Go does not know
	free       = -1
	spins      = 2 // in C; STALLOC_GO_SPINS is only larger
)

const (
	inGo   = iota // where a goroutine is
	window        // has looked for the collector, and does not count as in C yet
	inC
)

type goroutine struct {
	at, spun   int8
	hasP       bool // what the collector waits to get from all threads
	willUnlock bool // what C is called for
}

type state struct {
	g       [goroutines]goroutine
	holder  int8
	waiting bool // the collector, for the world to stop
	scanned int8 // goroutines that it has found in system calls, or not, since
}

type protocol struct {
	bounded bool // C comes back to Go after a few looks
	window  bool // as Go's runtime has it
	procs   int  // GOMAXPROCS
}

// next calls then with every state that can follow s.
func (p protocol) next(s state, then func(state)) {
	t := s
	switch { // the collector
	case !s.waiting:
		t.waiting = true
	case s.scanned < goroutines:
		if g := &t.g[s.scanned]; g.at == inC {
			g.hasP = false
		}
		t.scanned++
	case s.running() == 0: // the world has stopped, and starts again
		t.waiting, t.scanned = false, 0
	}
	then(t)
	switch t = s; s.holder { // the thread of C, which nobody stops
	case free:
		t.holder = outsider
	case outsider:
		t.holder = free
	}
	then(t)
	for i := range s.g {
		if t = s; p.move(&t, i) {
			then(t)
		}
		if t = s; t.g[i].at == inGo && t.g[i].hasP || t.g[i].at == inC && !t.waiting {
			t.g[i].hasP = false // parked, or its processor is taken by the monitor
			then(t)
		}
	}
}

// move lets goroutine i go on by itself.
func (p protocol) move(s *state, i int) bool {
	g, me := &s.g[i], int8(i)
	switch {
	case g.at == inGo && !g.hasP: // needs a processor
		g.hasP = true
		return !s.waiting && s.running() <= p.procs
	case g.at == inGo:
		*g = goroutine{at: inC, hasP: !s.waiting, willUnlock: s.holder == me}
		if p.window && !s.waiting {
			g.at = window
		}
	case g.at == window:
		g.at = inC
	case g.willUnlock:
		s.holder, g.at = free, inGo
	case s.holder == free:
		s.holder, g.at = me, inGo
	case !p.bounded:
		return false
	default:
		if g.spun++; g.spun == spins {
			g.at, g.spun = inGo, 0
		}
	}
	return true
}

func (s *state) running() (n int) {
	for i := range s.g {
		if s.g[i].hasP {
			n++
		}
	}
	return n
}

// stuck walks all states and counts those from which, whatever happens, goal is not
// reached any more. With none, a scheduler that neglects nobody for ever reaches it.
func stuck[S comparable](first S, next func(S, func(S)), goal func(S) bool) (stuck, all int) {
	before, reaches := map[S][]S{}, map[S]bool{}
	var visit, back func(S)
	visit = func(s S) {
		next(s, func(t S) {
			_, seen := before[t]
			before[t] = append(before[t], s)
			if !seen {
				visit(t)
			}
		})
	}
	back = func(s S) {
		if !reaches[s] {
			reaches[s] = true
			for _, b := range before[s] {
				back(b)
			}
		}
	}
	before[first] = nil
	visit(first)
	for s := range before {
		if goal(s) {
			back(s)
		}
	}
	return len(before) - len(reaches), len(before)
}

func TestNobodyWaitsForEver(t *testing.T) {
	goals := map[string]func(state) bool{
		"the world has stopped": func(s state) bool {
			return s.scanned == goroutines &&
				s.running() == 0
		},
		"a goroutine has the lock": func(s state) bool {
			return s.holder == 0 &&
				s.g[0].at == inGo && s.g[0].hasP
		},
		"a thread of C has the lock": func(s state) bool { return s.holder == outsider },
	}
	for what, goal := range goals {
		for procs := 1; procs <= goroutines; procs++ {
			for p, expected := range map[protocol]bool{
				{bounded: true, window: true, procs: procs}:   false,
				{bounded: false, window: true, procs: procs}:  true, // as it once was
				{bounded: false, window: false, procs: procs}: false,
			} {
				if stuck, all := stuck(state{holder: free}, p.next, goal); (stuck > 0) != expected {
					t.Errorf("%+v: %s never, from %d of %d states", p, what, stuck, all)
				}
			}
		}
	}
}
