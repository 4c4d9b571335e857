package engine

import (
	"maps"
	"slices"
	"testing"

	"stalloc/trace"
)

// TestEconomyPays: a pipeline whose blocks wait for other streams is stitched in every
// step, until the pool has begun anew with more memory.
func TestEconomyPays(t *testing.T) {
	tr, err := trace.ReadFile("../tests/traces/megatron_vpp.r0.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	const more = 6
	long := prolong(t, tr, more)
	stepMaps := func(cfg Config) (last uint64, held float64) {
		r := newReplay(cfg, long)
		if err := r.run(long); err != nil {
			t.Fatal(err)
		}
		s := r.eng.Stats()
		n := len(r.steps)
		return (r.steps[n-1].Maps - r.steps[n-4].Maps) / 3, 1 - float64(s.PeakHeld)/float64(s.PeakReserved())
	}
	cfg := DefaultConfig()
	mapped, held := stepMaps(cfg)
	cfg.Economy = 0 // it begins anew, with as little as before
	tight, heldTight := stepMaps(cfg)
	t.Logf("maps a step in the last three: %d, and %d as tight as the load; %.2f %% and %.2f %% more memory than it", mapped, tight, 100*held, 100*heldTight)
	if 10*mapped > tight || held > 0.021 || heldTight > 0.0025 {
		t.Error("expected a tenth of the maps, at most, for 2.1 % of the memory")
	}
}

// prolong repeats the last step of a recording whose steps repeat. What a step frees of
// the one before is freed in each; what is left over at the end of one is completed
// when the next begins.
func prolong(t *testing.T, tr *trace.Trace, more int) *trace.Trace {
	t.Helper()
	steps := tr.Steps()
	before, last := steps[len(steps)-2], steps[len(steps)-1]
	const times = 1 << 32 // room between the identifiers of two repetitions
	ordinal := func(from, to int) map[int64]int64 {
		at := map[int64]int64{}
		for _, ev := range tr.Events[from:to] {
			if ev.Kind == trace.Alloc {
				at[ev.ID] = int64(len(at))
			}
		}
		return at
	}
	earlier, own := ordinal(before[0], before[1]), ordinal(last[0], last[1])
	long := &trace.Trace{Name: tr.Name, Events: append([]trace.Event(nil), tr.Events[:last[1]]...)}
	// By ordinal, what the step before a repetition has left: its name, and how far its
	// free has come.
	type left struct {
		id        int64
		requested bool
	}
	live := map[int64]*left{}
	note := func(ev trace.Event, at int64) {
		switch ev.Kind {
		case trace.Alloc:
			live[at] = &left{id: ev.ID}
		case trace.FreeRequested:
			live[at].requested = true
		case trace.FreeCompleted:
			delete(live, at)
		}
	}
	for _, ev := range tr.Events[last[0]:last[1]] {
		if at, ok := own[ev.ID]; ok && ev.Kind != trace.Mark {
			note(ev, at)
		}
	}
	freed := map[int64]bool{} // ordinals of the step before that the last one frees
	for _, ev := range tr.Events[last[0]:last[1]] {
		if at, ok := earlier[ev.ID]; ok && ev.Kind == trace.FreeCompleted {
			freed[at] = true
		}
	}
	for n := range more {
		old := live
		live = map[int64]*left{}
		long.Events = append(long.Events, trace.Event{Kind: trace.Mark, Mark: "step more"})
		for _, at := range slices.Sorted(maps.Keys(old)) {
			if l := old[at]; l.requested && !freed[at] {
				long.Events = append(long.Events, trace.Event{Kind: trace.FreeCompleted, ID: l.id})
				delete(old, at)
			}
		}
		for _, ev := range tr.Events[last[0]:last[1]] {
			if ev.Kind == trace.Mark {
				continue
			}
			if at, ok := own[ev.ID]; ok {
				ev.ID = int64(n+1)*times + at
				note(ev, at)
				long.Events = append(long.Events, ev)
			} else if at, ok := earlier[ev.ID]; ok && old[at] != nil && (ev.Kind == trace.FreeCompleted || !old[at].requested) {
				ev.ID, old[at].requested = old[at].id, true
				long.Events = append(long.Events, ev)
				if ev.Kind == trace.FreeCompleted {
					delete(old, at)
				}
			}
		}
	}
	long.Events = append(long.Events, trace.Event{Kind: trace.Mark, Mark: "end"})
	return long
}
