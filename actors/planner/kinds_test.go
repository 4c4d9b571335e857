package planner

import (
	"testing"

	"stalloc/actors/host"
	"stalloc/internal/mem"
	"stalloc/plan"
)

// of is a step that asks for these sizes, in MiB.
func of(sizes ...mem.Bytes) plan.Step {
	s := plan.Step{}
	for i, n := range sizes {
		s.Requests = append(s.Requests, plan.Request{Size: n * mem.MiB, From: mem.Tick(i),
			Free: mem.Tick(len(sizes) + i), Done: mem.Tick(len(sizes) + i)})
	}
	return s
}

// TestRecognize: a step is of the kind whose requests have the same sizes in the same order, and
// of a new one otherwise. Only mostKinds are known: the one seen longest ago goes.
func TestRecognize(t *testing.T) {
	h := &kinds{}
	train, eval := h.recognize(of(1, 2, 3)), h.recognize(of(1, 2))
	if train == eval || train.proven || eval.proven {
		t.Fatal("two kinds, neither of which came again")
	}
	if h.recognize(of(1, 2, 3)) != train || !train.proven {
		t.Error("it came again")
	}
	if x := h.recognize(of(1, 2, 4)); x == train || x == eval {
		t.Error("one size differs")
	}
	h.recognize(of(9))
	h.recognize(of(8)) // eval is the one seen longest ago
	if len(h.all) != mostKinds {
		t.Errorf("%d kinds are known", len(h.all))
	}
	if h.recognize(of(1, 2, 3)) != train {
		t.Error("a kind that was seen lately is forgotten")
	}
	if h.recognize(of(1, 2)) == eval {
		t.Error("the kind seen longest ago is still known")
	}
}

// TestDue: a step is planned once it came again; a plan that serves stays, and one that does not is
// withdrawn and tried again less and less often.
func TestDue(t *testing.T) {
	h := &kinds{}
	k := h.recognize(of(1, 2, 3))
	if h.due(k, 0, false) {
		t.Error("planned at first sight")
	}
	k = h.recognize(of(1, 2, 3))
	if !h.due(k, 0, false) {
		t.Error("it came again and is not planned")
	}
	k.schedule = &host.Schedule{}
	h.serving = h.next(k)
	if h.serving != k {
		t.Fatal("the plan does not serve")
	}
	if h.due(k, 3, true) || k.schedule == nil {
		t.Error("all requests hit, and it is planned anew")
	}
	var waits []int
	for range 4 {
		for k.schedule != nil {
			h.due(k, 0, true)
		}
		n := 0
		for !h.due(k, 0, false) {
			n++
		}
		waits = append(waits, n)
		k.schedule = &host.Schedule{}
	}
	for i, n := range waits[1:] {
		if n < waits[i] {
			t.Errorf("steps between plans that fail: %v", waits)
		}
	}
	if waits[3] <= waits[0] {
		t.Errorf("plans that fail are tried as often as ever: %v", waits)
	}
}

// TestNext: the kind that came twice in a row is served next; another one's single step does not
// end what serves, mostOthers of them do.
func TestNext(t *testing.T) {
	h := &kinds{}
	planned := func(s plan.Step) *kind {
		k := h.recognize(s)
		k.schedule = &host.Schedule{}
		return k
	}
	train := planned(of(1, 2, 3))
	h.last = train
	if h.serving = h.next(train); h.serving != train {
		t.Fatal("training came twice and is not served")
	}
	eval := h.recognize(of(5))
	h.due(eval, 0, false)
	if h.next(eval) != train {
		t.Error("one step of another kind ends the plan")
	}
	eval = h.recognize(of(5))
	h.due(eval, 0, false)
	if h.others != mostOthers || h.next(eval) != nil {
		t.Errorf("after %d other steps the plan is still served", h.others)
	}
}

// TestContains: all requests in their order, among at most as many others.
func TestContains(t *testing.T) {
	for _, c := range []struct {
		all, some plan.Step
		want      bool
	}{
		{of(1, 2, 3), of(1, 2, 3), true},
		{of(1, 9, 2, 3), of(1, 2, 3), true},
		{of(1, 3, 2), of(1, 2, 3), false},
		{of(1, 2), of(1, 2, 3), false},
		{of(9, 9, 9, 1, 2, 3), of(1, 2, 3), true},
		{of(9, 9, 9, 9, 1, 2, 3), of(1, 2, 3), false},
	} {
		if got := contains(c.all.Requests, c.some.Requests); got != c.want {
			t.Errorf("%d requests contain %d: %v", len(c.all.Requests), len(c.some.Requests), got)
		}
	}
}
