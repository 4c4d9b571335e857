package predict

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// row is what a step of a replay comes to, over the large requests.
type row struct {
	requests, exact, bound int       // of them matched with the size that was foreseen, or below a bound
	asked, matched         mem.Bytes // rounded
	taken                  int       // matched, but the planned bytes were in use
	plans, refused         int       // a plan that would need much more than the load is not used
	top, goal              mem.Bytes // of the plans; the largest load so far
	peak                   mem.Bytes // of the load
	spread                 mem.Bytes // end of the highest block
}

func (r row) share() float64 { return float64(r.matched) / float64(max(r.asked, 1)) }

func (r row) String() string {
	return fmt.Sprintf("%5d large, %5d exact, %4d bounds, %5.1f %% of the bytes, %d taken, %d plans, %d refused, top %.4f of the largest load, spread %.4f",
		r.requests, r.exact, r.bound, 100*r.share(), r.taken, r.plans, r.refused, float64(r.top)/float64(max(r.goal, 1)), float64(r.spread)/float64(max(r.peak, 1)))
}

// replayer serves the large blocks of a recording from one address space: where the
// forecast's plan says if these bytes are free, else by best fit.
type replayer struct {
	t       *testing.T
	l       *Learner
	p       Planner
	refs    map[int64]Ref
	where   map[Ref]plan.Fixed
	space   []plan.Fixed // of the live blocks, by offset
	f       Forecast
	offsets []mem.Offset // its plan
	load    mem.Bytes
	largest mem.Bytes
	rows    []row
}

func replayTrace(t *testing.T, tr *trace.Trace, rebuilt bool) *replayer {
	return replayTraceOff(t, tr, rebuilt, false)
}
func replayTraceOff(t *testing.T, tr *trace.Trace, rebuilt, off bool) *replayer {
	t.Helper()
	l := New()
	if off {
		l.follower.off = 1 << 30
	}
	r := &replayer{t: t, l: l, refs: map[int64]Ref{}, where: map[Ref]plan.Fixed{}, rows: make([]row, 1)}
	for _, e := range tr.Events {
		switch e.Kind {
		case trace.Alloc:
			if e.Stream == 0 && e.Size > Large {
				r.alloc(e.ID, e.Size)
			}
		case trace.FreeRequested:
			if ref, ok := r.refs[e.ID]; ok {
				r.l.Free(ref)
			}
		case trace.FreeCompleted:
			if ref, ok := r.refs[e.ID]; ok {
				r.l.Done(ref)
				f := r.where[ref]
				i := r.index(f.From)
				r.space = slices.Delete(r.space, i, i+1)
				r.load -= mem.Bytes(f.To - f.From)
				delete(r.refs, e.ID)
				delete(r.where, ref)
			}
		case trace.Mark:
			if strings.HasPrefix(e.Mark, "step ") || e.Mark == "end" {
				r.l.Boundary()
				if rebuilt && e.Mark == "step 2" {
					r.rebuild()
				}
				r.rows = append(r.rows, row{peak: r.load})
			}
		}
	}
	return r
}

// rebuild lays the live blocks side by side: what an allocator comes to that gives the
// free memory behind them new addresses in one piece.
func (r *replayer) rebuild() {
	moved := map[mem.Offset]plan.Fixed{}
	end := mem.Offset(0)
	for i, f := range r.space {
		r.space[i] = plan.Fixed{From: end, To: end + f.To - f.From}
		moved[f.From] = r.space[i]
		end = r.space[i].To
	}
	for ref, f := range r.where {
		r.where[ref] = moved[f.From]
	}
}

func (r *replayer) index(at mem.Offset) int {
	i, _ := slices.BinarySearchFunc(r.space, at, func(f plan.Fixed, at mem.Offset) int { return int(f.From - at) })
	return i
}

func (r *replayer) alloc(id int64, asked mem.Bytes) {
	size := mem.Round(asked)
	step := &r.rows[len(r.rows)-1]
	ref, m := r.l.Alloc(asked)
	if m.Forecast != 0 && m.Forecast != r.f.Number {
		r.plan()
	}
	step.requests++
	step.asked += size
	at := Nowhere
	if m.Forecast != 0 {
		step.matched += size
		p := r.f.Positions[m.Position]
		if p.Size == size {
			step.exact++
		} else {
			step.bound++
		}
		if at = r.offsets[m.Position]; at == Nowhere || !r.free(at, size) {
			step.taken++
			at = Nowhere
		}
	}
	if at == Nowhere {
		at = r.bestFit(size)
	}
	f := plan.Fixed{From: at, To: at + mem.Offset(size)}
	r.space = slices.Insert(r.space, r.index(at), f)
	r.refs[id], r.where[ref] = ref, f
	r.load += size
	r.largest = max(r.largest, r.load)
	step.peak = max(step.peak, r.load)
	step.spread = max(step.spread, mem.Bytes(f.To))
}

// plan makes the offsets for a forecast and proves them.
func (r *replayer) plan() {
	if !r.l.Forecast(&r.f) {
		r.t.Fatal("a match without a forecast")
	}
	var obstacles []Obstacle
	for ref, f := range r.where {
		f.Until = r.l.End(ref)
		obstacles = append(obstacles, f)
	}
	slices.SortFunc(obstacles, func(a, b Obstacle) int { return int(a.From - b.From) })
	step := &r.rows[len(r.rows)-1]
	var top mem.Bytes
	r.offsets, top = r.p.Plan(r.f.From, r.f.Positions, obstacles, r.largest)
	step.plans++
	step.top, step.goal = max(step.top, top), r.largest
	if refused := top > r.largest+r.largest/20; refused {
		step.refused++
		for i := range r.offsets {
			r.offsets[i] = Nowhere
		}
		return
	}
	if err := check(r.f.From, r.f.Positions, obstacles, r.offsets, top); err != nil {
		r.t.Fatal(err)
	}
}

// check holds a plan to the validator, which shares no code with the solver.
func check(now mem.Tick, positions []Position, obstacles []Obstacle, offsets []mem.Offset, top mem.Bytes) error {
	var buffers []plan.Buffer
	var at []mem.Offset
	highest := top
	for _, o := range obstacles {
		buffers = append(buffers, plan.Buffer{Lower: now, Upper: max(o.Until, now), Size: mem.Bytes(o.To - o.From)})
		at = append(at, o.From)
		highest = max(highest, mem.Bytes(o.To))
	}
	for i, p := range positions {
		if planned := p.Begin >= now && p.Size > 0; planned != (offsets[i] != Nowhere) {
			return fmt.Errorf("position %d %+v has offset %d", i, p, offsets[i])
		} else if planned {
			buffers = append(buffers, plan.Buffer{Lower: p.Begin, Upper: p.End, Size: p.Size})
			at = append(at, offsets[i])
			if mem.Bytes(offsets[i])+p.Size > top {
				return fmt.Errorf("position %d %+v at offset %d ends above the top %d", i, p, offsets[i], top)
			}
		}
	}
	return plan.Validate(buffers, at, highest)
}

func (r *replayer) free(at mem.Offset, size mem.Bytes) bool {
	i := r.index(at)
	return (i == len(r.space) || r.space[i].From >= at+mem.Offset(size)) && (i == 0 || r.space[i-1].To <= at)
}

func (r *replayer) bestFit(size mem.Bytes) mem.Offset {
	best, room := mem.Offset(0), mem.Bytes(1<<62)
	end := mem.Offset(0)
	for _, f := range r.space {
		if gap := mem.Bytes(f.From - end); gap >= size && gap < room {
			best, room = end, gap
		}
		end = f.To
	}
	if room == 1<<62 {
		return end
	}
	return best
}

func TestReplay(t *testing.T) {
	for _, name := range []string{"hf_trainer", "pyg_gat", "megatron_dense.r0", "megatron_moe.r0", "gpt2_naive", "llama_naive", "llama_recompute", "llama_vpp", "llama_lora", "vit_streams", "llama_varlen", "packed_varlen", "multiscale_resnet", "mixtral_moe", "fine_moe", "qwen2moe_recompute", "megatron_vpp.r0", "megatron_moer.r0"} {
		t.Run(name, func(t *testing.T) {
			tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
			if err != nil {
				t.Fatal(err)
			}
			rebuilt := os.Getenv("REB") != ""
			r := replayTrace(t, tr, rebuilt)
			for i, row := range r.rows {
				t.Logf("step %2d: %v", i-1, row)
			}
			t.Logf("%+v, %d plans made, %d again", r.l.counts, r.p.Solved, r.p.Reused)
		})
	}
}
