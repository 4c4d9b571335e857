package paper

import (
	"slices"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
	planner "stalloc/plan/solve/paper"
	"stalloc/trace"
)

// Plan says where the requests of a second start lie. It is not changed once it is made, so any
// number of allocators may use it.
type Plan struct {
	Region mem.Bytes // of planned blocks
	Cells  mem.Bytes // of blocks of 512 bytes at most

	ignoring   bool // of streams
	stream     mem.StreamID
	head, step []entry           // set-up and first step; a later step
	modules    []int32           // by request of the recording; nil: none are known
	idle       [2]map[int32]idle // by module: in the first step, in later ones
}

// entry is a planned request.
type entry struct {
	size   mem.Bytes
	stream mem.StreamID
	at     mem.Offset // nowhere: the cache serves it
}

const nowhere mem.Offset = -1

// idle is what the static plan leaves free while the blocks of a module live, in order.
type idle []span

// span is the bytes [from, to) of the region.
type span struct{ from, to mem.Offset }

// Plan makes the plan of a profile: of those with all requests in order, with experts' requests
// left to the cache, and with these in idle intervals, the one that reserves the least in the
// profiled steps. It is nil if the caching allocator alone reserves no more.
func (p *Profile) Plan() *Plan {
	best, least := (*Plan)(nil), p.try(nil)
	for _, plan := range p.variants() {
		if reserved := p.try(plan); reserved < least {
			best, least = plan, reserved
		}
	}
	return best
}

func (p *Profile) variants() (plans []*Plan) {
	if plan, _ := p.place(nil); plan != nil {
		plans = append(plans, plan)
	}
	if p.modules == nil {
		return plans
	}
	if apart, d := p.place(p.modules); apart != nil {
		reusing := *apart
		reusing.idle = d.idle(apart)
		plans = append(plans, apart, &reusing)
	}
	return plans
}

// budget is the planner's, in units of dsa.Work: a second for a step of 10,000 requests.
const budget = 1 << 26

// place plans what is not of modules.
func (p *Profile) place(modules []int32) (*Plan, *drawing) {
	d := p.draw(modules)
	in := dsa.Compress(&d.problem)
	if len(in.IDs) == 0 {
		return nil, nil
	}
	left := int64(budget)
	work := dsa.NewWork(in.Bound, func() (int64, bool) {
		granted := left
		left = 0
		return granted, granted > 0
	})
	if planner.Run(in, work, 0, 0, nil); work.Top == 0 {
		return nil, nil
	}
	d.at = in.Offsets(&d.problem, work.At)
	plan := &Plan{
		Region:   mem.RoundUp(mem.Bytes(work.Top), mem.HandleSize),
		Cells:    mem.RoundUp(2*mem.Bytes(p.cells())*cellSize, mem.HandleSize),
		ignoring: p.ignoring, stream: p.stream, modules: modules,
	}
	plan.head, plan.step = d.entries(d.head), d.entries(d.step)
	return plan, d
}

// try returns what the profiled steps reserve with a plan, nil for none.
func (p *Profile) try(plan *Plan) mem.Bytes {
	a, err := New(baseline.Options{Capacity: plenty}, plan)
	if err != nil {
		panic(err) // the options are ours
	}
	blocks := make(map[int64]baseline.Block)
	boundaries := slices.Clone(p.ends[:])
	ended := trace.FreeCompleted
	if plan != nil && plan.ignoring {
		ended = trace.FreeRequested
	}
	for i := range p.tr.Events[:p.ends[Steps-1]] {
		if i == boundaries[0] {
			a.Step()
			boundaries = boundaries[1:]
		}
		switch e := &p.tr.Events[i]; e.Kind {
		case trace.Alloc:
			if blocks[e.ID], err = a.Malloc(e.Size, e.Stream); err != nil {
				return plenty // more than any device has
			}
		case ended:
			if b := blocks[e.ID]; b != baseline.None {
				if err := a.Free(b); err != nil {
					panic(err)
				}
			}
		case trace.EmptyCache:
			a.EmptyCache()
		}
	}
	return a.Stats().PeakReserved
}

const plenty = mem.Bytes(1 << 50)
