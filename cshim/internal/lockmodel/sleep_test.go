package lockmodel

import "testing"

// Where a thread is that takes the lock and leaves it.
const (
	outside = iota
	about   // to take it as awaited
	seen    // that it is taken, and about to sleep if it is awaited
	asleep
	inside
	owing // has left it, and is about to wake somebody
)

const (
	untaken = iota
	taken
	awaited
)

// sleepers are two threads of C, and one that Go has called, which never sleeps.
type sleepers struct {
	at   [3]int8
	lock int8
}

// move lets thread i go on by itself, in each way that it may.
func (s sleepers) move(i int, arrives bool, then func(sleepers)) {
	t := s
	switch s.at[i] {
	case outside:
		if arrives && s.lock == untaken {
			t.at[i], t.lock = inside, taken
			then(t)
		}
		if t = s; arrives && i < 2 {
			t.at[i] = about
			then(t)
		}
	case about:
		t.at[i], t.lock = either(s.lock == untaken, inside, seen), awaited
		then(t)
	case seen:
		t.at[i] = either(s.lock == awaited, asleep, about)
		then(t)
	case inside:
		t.at[i], t.lock = either(s.lock == awaited, owing, outside), untaken
		then(t)
	case owing:
		t.at[i] = outside
		woken := false
		for j, at := range s.at {
			if at == asleep {
				u := t
				u.at[j] = about
				woken = true
				then(u)
			}
		}
		if !woken {
			then(t)
		}
	}
}

func either(so bool, then, otherwise int8) int8 {
	if so {
		return then
	}
	return otherwise
}

// Whoever sleeps is woken by those that are there already: nobody need come for it.
func TestNoWakeIsLost(t *testing.T) {
	all := map[sleepers]bool{}
	var visit func(sleepers)
	visit = func(s sleepers) {
		if all[s] {
			return
		}
		all[s] = true
		for i := range s.at {
			s.move(i, true, visit)
		}
	}
	visit(sleepers{})
	stays := func(s sleepers, then func(sleepers)) {
		for i := range s.at {
			s.move(i, false, then)
		}
	}
	for s := range all {
		within := 0
		for _, at := range s.at {
			if at == inside {
				within++
			}
		}
		if within > 1 || (within == 1) != (s.lock != untaken) {
			t.Fatalf("%+v: %d are inside", s, within)
		}
		if n, _ := stuck(s, stays, func(s sleepers) bool { return s == sleepers{} }); n > 0 {
			t.Fatalf("%+v: somebody sleeps for ever", s)
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d states were walked", len(all))
	}
}
