package predict

import (
	"cmp"
	"fmt"
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
	plans, refused         int       // a plan that needs more than what is used already and the load is not followed
	top, goal              mem.Bytes // of the plans; what they may need
	peak                   mem.Bytes // of the load
	spread                 mem.Bytes // end of the highest block
}

func (r row) share() float64 { return float64(r.matched) / float64(max(r.asked, 1)) }

// from adds up the steps from one on.
func (r *replayer) from(step int) (sum row) {
	// What comes before the first step has a row, too, and what comes behind the last.
	for _, x := range r.rows[min(step+1, len(r.rows)-1) : len(r.rows)-1] {
		sum.requests, sum.exact, sum.bound = sum.requests+x.requests, sum.exact+x.exact, sum.bound+x.bound
		sum.asked, sum.matched, sum.taken = sum.asked+x.asked, sum.matched+x.matched, sum.taken+x.taken
		sum.plans, sum.refused = sum.plans+x.plans, sum.refused+x.refused
		sum.top, sum.goal = max(sum.top, x.top), max(sum.goal, x.goal)
		sum.peak, sum.spread = max(sum.peak, x.peak), max(sum.spread, x.spread)
	}
	return sum
}

func (r row) String() string {
	return fmt.Sprintf("%5d large, %5d exact, %4d bounds, %5.1f %% of the bytes, %d taken, %d plans, %d refused, top %.4f of the goal, spread %.4f of the peak",
		r.requests, r.exact, r.bound, 100*r.share(), r.taken, r.plans, r.refused, float64(r.top)/float64(max(r.goal, 1)), float64(r.spread)/float64(max(r.peak, 1)))
}

// replayer serves the large blocks of a recording from one address space: where the
// forecast's plan says if these bytes are free, else by best fit.
type replayer struct {
	t       testing.TB
	l       *Learner
	refs    map[int64]Ref
	where   map[Ref]plan.Fixed
	space   []plan.Fixed // of the live blocks, by offset
	f       Forecast
	offsets []mem.Offset                          // its plan
	again   func() (positions int, top mem.Bytes) // makes that once more
	load    mem.Bytes
	largest mem.Bytes // its peak
	used    mem.Bytes // end of the highest block so far
	rows    []row
}

// run says how a recording is replayed.
type run struct {
	blind   bool // nothing is forecast
	rebuilt bool // the live blocks are laid side by side behind the second step
}

func replayed(t testing.TB, tr *trace.Trace, how run) *replayer {
	t.Helper()
	r := &replayer{t: t, l: New(), refs: map[int64]Ref{}, where: map[Ref]plan.Fixed{}, rows: make([]row, 1)}
	if how.blind {
		r.l.off = 1 << 30
	}
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
				if how.rebuilt && e.Mark == "step 2" {
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
	r.used = r.largest
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
		if at = r.offsets[m.Position]; at != Nowhere && !r.free(at, size) {
			step.taken++
			at = Nowhere
			r.l.Taken()
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
	r.used = max(r.used, step.spread)
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
	goal := max(r.used, r.f.Peak)
	r.again = func() (int, mem.Bytes) {
		offsets, top := Plan(r.f.From, r.f.Positions, obstacles, goal)
		return len(offsets), top
	}
	r.offsets, top = Plan(r.f.From, r.f.Positions, obstacles, goal)
	step.plans++
	step.top, step.goal = max(step.top, top), goal
	if err := check(r.f.From, r.f.Positions, obstacles, r.offsets, top); err != nil {
		r.t.Fatal(err)
	}
	if top > goal+goal/200 {
		step.refused++
		for i := range r.offsets {
			r.offsets[i] = Nowhere
		}
	}
}

// check finds out whether a plan is one, with no code of the solver.
func check(now mem.Tick, positions []Position, obstacles []Obstacle, offsets []mem.Offset, top mem.Bytes) error {
	var buffers []plan.Buffer
	var at []mem.Offset
	for _, o := range obstacles {
		buffers = append(buffers, plan.Buffer{Lower: now, Upper: max(o.Until, now), Size: mem.Bytes(o.To - o.From)})
		at = append(at, o.From)
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
	return disjoint(buffers, at)
}

// disjoint walks through time with the live buffers kept by offset: a new one can only
// collide with its two neighbours.
func disjoint(b []plan.Buffer, at []mem.Offset) error {
	type event struct {
		tick  mem.Tick
		start bool
		i     int
	}
	var events []event
	for i, x := range b {
		if x.Lower < x.Upper {
			events = append(events, event{x.Lower, true, i}, event{x.Upper, false, i})
		}
	}
	slices.SortFunc(events, func(x, y event) int {
		if x.tick == y.tick && x.start != y.start { // ends come first
			if x.start {
				return 1
			}
			return -1
		}
		return cmp.Compare(x.tick, y.tick)
	})
	var live []int
	for _, e := range events {
		k, _ := slices.BinarySearchFunc(live, at[e.i], func(i int, o mem.Offset) int { return cmp.Compare(at[i], o) })
		if !e.start {
			live = slices.Delete(live, k, k+1)
			continue
		}
		for _, o := range live[max(k-1, 0):min(k+1, len(live))] {
			if at[o] < at[e.i]+mem.Offset(b[e.i].Size) && at[e.i] < at[o]+mem.Offset(b[o].Size) {
				return fmt.Errorf("%+v at %d and %+v at %d overlap", b[o], at[o], b[e.i], at[e.i])
			}
		}
		live = slices.Insert(live, k, e.i)
	}
	return nil
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

// recordings are the bundled runs and what is held to them: the share of the large
// bytes that come as foreseen, from a step on.
var recordings = []struct {
	name   string
	from   int
	least  float64
	most   float64 // for those that are to be left alone
	spread float64 // of the largest load, the address range that is used with forecasts
}{
	{"hf_trainer", 9, 0.90, 1, 1.005},
	{"pyg_gat", 9, 0.99, 1, 1.005},
	{"gpt2_naive", 2, 0.99, 1, 1.002},
	{"llama_naive", 2, 0.99, 1, 1.002},
	{"llama_recompute", 2, 0.99, 1, 1.002},
	{"llama_vpp", 2, 0.99, 1, 1.002},
	{"llama_lora", 2, 0.99, 1, 1.002},
	{"vit_streams", 2, 0.99, 1, 1.002},
	{"megatron_dense.r0", 2, 0.99, 1, 1.03}, // 260 large frees a step complete late, now and then later than ever
	// 730 complete late, by up to a thousand events more than before: no plan allows for that and fits.
	{"megatron_vpp.r0", 2, 0.99, 1, 1.04},
	{"packed_varlen", 4, 0.90, 1, 1.05}, // from the fourth step of the kind
	// Five steps, in no three of which the same requests are large, or have the same algorithms.
	{"llama_varlen", 1, 0, 0, 1.2},
	{"multiscale_resnet", 1, 0, 0, 1.1},
	// The routing decides.
	{"mixtral_moe", 1, 0, 0.01, 1.05},
	{"fine_moe", 1, 0, 0.02, 1.12},
	{"qwen2moe_recompute", 1, 0, 0.01, 1.05},
	{"megatron_moe.r0", 1, 0, 0.01, 1.05},
	{"megatron_moer.r0", 1, 0, 0.01, 1.05},
}

func read(t *testing.T, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestReplay: what is foreseen, and the address range that plans for it need. Run with -v
// for the table.
func TestReplay(t *testing.T) {
	for _, c := range recordings {
		t.Run(c.name, func(t *testing.T) {
			tr := read(t, c.name)
			r := replayed(t, tr, run{rebuilt: true})
			for i, row := range r.rows {
				t.Logf("step %2d: %v", i-1, row)
			}
			sum, counts := r.from(c.from), r.l.Counts()
			t.Logf("from step %d: %v", c.from, sum)
			t.Logf("%+v", counts)
			if share := sum.share(); share < c.least || share > c.most {
				t.Errorf("from step %d on %.4f of the bytes came as foreseen, expected %v to %v", c.from, share, c.least, c.most)
			}
			if spread := float64(sum.spread) / float64(r.largest); spread > c.spread {
				t.Errorf("%.4f of the largest load is used, expected at most %v", spread, c.spread)
			}
			if taken := float64(sum.taken) / float64(sum.requests); taken > 0.05 {
				t.Errorf("%.4f of the requests found their bytes in use", taken)
			}
			if c.most < 1 && counts.Forecasts > mostBad+counts.Kinds {
				t.Errorf("%+v: forecasts should have ended", counts)
			}
		})
	}
}

// TestReplayAroundBlocks: where the live blocks stay where the first steps left them, plans
// go around them and are still better than best fit.
func TestReplayAroundBlocks(t *testing.T) {
	for _, name := range []string{"hf_trainer", "pyg_gat", "gpt2_naive", "llama_naive", "llama_recompute", "llama_lora", "packed_varlen"} {
		tr := read(t, name)
		blind, r := replayed(t, tr, run{blind: true}), replayed(t, tr, run{})
		t.Logf("%s: by best fit %v", name, blind.from(2))
		t.Logf("%s: as planned  %v", name, r.from(2))
		if s := r.from(1).spread; s > blind.from(1).spread {
			t.Errorf("%s: %v used, by best fit %v", name, s, blind.from(1).spread)
		}
	}
}

// TestReplayWithNoise: with requests inserted and left out less comes as foreseen or nothing,
// and a step whose plan is given up halfway costs little. Best fit then goes on from a
// placement that had no gap to spare.
func TestReplayWithNoise(t *testing.T) {
	for _, name := range []string{"hf_trainer", "pyg_gat", "megatron_dense.r0", "llama_lora", "llama_recompute", "llama_vpp", "gpt2_naive", "packed_varlen"} {
		for _, rate := range []float64{0.001, 0.01} {
			tr := read(t, name).Disturb(1, rate)
			blind, r := replayed(t, tr, run{blind: true, rebuilt: true}), replayed(t, tr, run{rebuilt: true})
			a, b := blind.from(2), r.from(2)
			t.Logf("%s, noise %v: %v, %+v; by best fit spread %.4f", name, rate, b, r.l.Counts(), float64(a.spread)/float64(a.peak))
			if float64(b.spread-a.spread) > 0.03*float64(r.largest) {
				t.Errorf("%s, noise %v: %v used, by best fit %v", name, rate, b.spread, a.spread)
			}
			if rate == 0.01 && b.share() > 0.1 {
				t.Errorf("%s, noise %v: %.3f of the bytes still came as foreseen: a test of nothing", name, rate, b.share())
			}
		}
	}
}
