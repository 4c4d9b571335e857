package actors

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// step records requests of these sizes, each freed when the second behind it has
// come, and carried blocks that were there before and stay.
func step(carried mem.Bytes, sizes ...mem.Bytes) []*plan.Step {
	var r plan.Recorder
	if carried > 0 {
		r.Alloc(1<<32, carried)
		r.Boundary()
	}
	for i, size := range sizes {
		r.Alloc(uint64(i), size)
		if i >= 2 {
			r.Free(uint64(i - 2))
		}
	}
	for i := max(len(sizes)-2, 0); i < len(sizes); i++ {
		r.Free(uint64(i))
	}
	return []*plan.Step{r.Boundary()}
}

// ramp returns n sizes that differ, from one on.
func ramp(n int, from mem.Bytes) (sizes []mem.Bytes) {
	for i := range n {
		sizes = append(sizes, from+mem.Bytes(i)*mem.MiB)
	}
	return sizes
}

func planned(t testing.TB, kinds ...[]*plan.Step) *plan.Plan {
	t.Helper()
	p, err := plan.MakeRun(plan.Run{Steady: kinds}, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func judged(t testing.TB, p *plan.Plan, steps []*plan.Step) (verdict, int) {
	t.Helper()
	v, kind, err := new(layouts).judge(p, steps, stream.Tunings[0])
	if err != nil {
		t.Fatal(err)
	}
	return v, kind
}

func TestJudgeTheSameStep(t *testing.T) {
	steps := step(100*mem.MiB, ramp(50, mem.MiB)...)
	p := planned(t, steps)
	v, _ := judged(t, p, step(100*mem.MiB, ramp(50, mem.MiB)...))
	peak, _ := steps[0].Peaks()
	if v.requests != 50 || v.misses != 0 || v.memory != p.Streams[0].Arena+100*mem.MiB || v.peak != peak {
		t.Errorf("verdict %+v, the step's peak is %v", v, peak)
	}
	if !v.serves(peak) {
		t.Error("the plan does not serve the step that it was made from")
	}
}

func TestJudgeAnotherStep(t *testing.T) {
	p := planned(t, step(0, ramp(50, mem.MiB)...))
	other := step(0, ramp(50, 100*mem.MiB)...)
	v, _ := judged(t, p, other)
	peak, _ := other[0].Peaks()
	if v.misses != 50 || v.memory != p.Streams[0].Arena+peak {
		t.Errorf("verdict %+v, the step's peak is %v", v, peak)
	}
	if v.serves(peak) {
		t.Error("an arena that stands idle beside the pool is thought to serve")
	}
	// What other steps have needed anyway is no waste, but serving nothing is no use.
	if v.serves(100 * peak) {
		t.Error("a plan that serves nothing is thought to serve")
	}
}

func TestJudgeTakesTheKindThatFits(t *testing.T) {
	a, b := ramp(50, mem.MiB), ramp(20, 200*mem.MiB)
	p := planned(t, step(0, a...), step(0, b...))
	for want, sizes := range [][]mem.Bytes{a, b} {
		if v, kind := judged(t, p, step(0, sizes...)); kind != want || v.misses != 0 {
			t.Errorf("kind %d with %d misses, expected kind %d", kind, v.misses, want)
		}
	}
}

// TestJudgeForgivesThePoolsRequests: a block that crosses the step is on the tape
// and no miss.
func TestJudgeForgivesThePoolsRequests(t *testing.T) {
	var r plan.Recorder
	var steps [3][]*plan.Step
	for i := range steps {
		r.Alloc(uint64(100+i), 4096) // a loss, kept until the next one is there
		r.Free(uint64(100 + i - 1))
		for k, size := range ramp(10, mem.MiB) {
			r.Alloc(uint64(k), size)
		}
		for k := range 10 {
			r.Free(uint64(k))
		}
		steps[i] = []*plan.Step{r.Boundary()}
	}
	v, _ := judged(t, planned(t, steps[1]), steps[2])
	if v.requests != 11 || v.misses != 0 {
		t.Errorf("verdict %+v", v)
	}
	if n := poolEntries(&planned(t, steps[1]).Streams[0], 0); n != 1 {
		t.Errorf("%d requests of the tape are the pool's, expected 1", n)
	}
}

func TestJudgeStreams(t *testing.T) {
	main, side := step(0, ramp(20, mem.MiB)...), step(0, ramp(5, 8*mem.MiB)...)
	both := []*plan.Step{main[0], side[0]}
	p := planned(t, main)
	v, _ := judged(t, p, both)
	peak, _ := side[0].Peaks()
	if v.requests != 25 || v.misses != 5 || v.memory != p.Streams[0].Arena+peak {
		t.Errorf("a stream without a plan: %+v", v)
	}
	if _, _, err := new(layouts).judge(&plan.Plan{}, both, stream.Tunings[0]); err == nil {
		t.Error("a plan without a tape was judged")
	}
}

func TestKinds(t *testing.T) {
	var k kinds
	a, b := step(0, ramp(3, mem.MiB)...), step(0, ramp(4, mem.MiB)...)
	first := k.note(a, 1, nil)
	if again := k.note(step(0, ramp(3, mem.MiB)...), 2, nil); again != first || first.seen != 2 || first.last != 2 {
		t.Fatalf("the same kind again: %+v", again)
	}
	second := k.note(b, 3, nil)
	if chosen := k.worth(3); len(chosen) != 2 || chosen[0] != first || chosen[1] != second {
		t.Errorf("the newest kind and the one seen twice are worth a plan: %v", chosen)
	}
	if chosen := k.worth(4); len(chosen) != 1 || chosen[0] != first {
		t.Errorf("a kind seen once is worth one only while it is the newest: %v", chosen)
	}
	if chosen := k.worth(3 + remember); len(chosen) != 0 {
		t.Errorf("kinds of long ago: %v", chosen)
	}
	if near := k.note(step(0, ramp(5, mem.MiB)...), 5, first); near != first || len(k.list) != 2 {
		t.Errorf("a well-served step is one of the kind that served it: %v", near)
	}
	for i := range mostKinds {
		k.note(step(0, ramp(10<<i, mem.MiB)...), 6+i, nil)
	}
	if len(k.list) != mostKinds || k.list[0] == second || k.list[0] == first {
		t.Errorf("%d kinds are kept: %v", len(k.list), k.list)
	}
	if !slices.Equal(versions([]*kind{first, second}), versions([]*kind{second, first})) {
		t.Error("sets of kinds are not compared as sets")
	}
}

// TestKindsThatVary: steps of one structure and never the same sizes are one kind,
// and what is known of it holds its largest step.
func TestKindsThatVary(t *testing.T) {
	var k kinds
	k.note(step(0, ramp(20, mem.MiB)...), 1, nil) // set-up
	units := []mem.Bytes{2, 7, 3, 4, 5}
	var latest *kind
	for i, unit := range units {
		latest = k.note(step(0, ramp(20, unit*mem.MiB)...), 2+i, nil)
	}
	if len(k.list) != 2 || !latest.varies() || latest.seen != len(units) || len(latest.earlier) != mostEarlier {
		t.Fatalf("%d kinds, the newest %+v", len(k.list), latest)
	}
	known := []mem.Bytes{peaks(latest.earlier[0]), peaks(latest.earlier[1]), peaks(latest.steps)}
	want := []mem.Bytes{peaks(step(0, ramp(20, 7*mem.MiB)...)), peaks(step(0, ramp(20, 4*mem.MiB)...)), peaks(step(0, ramp(20, 5*mem.MiB)...))}
	if !slices.Equal(known, want) {
		t.Errorf("peaks known %v, want %v", known, want)
	}
	version := latest.version()
	latest = k.note(step(0, ramp(20, 5*mem.MiB)...), 9, nil)
	if latest.varies() || latest.version() == version {
		t.Errorf("two steps are the same now: %+v", latest)
	}
	if latest = k.note(step(0, ramp(20, 6*mem.MiB)...), 10, nil); !latest.varies() || len(k.list) != 2 {
		t.Errorf("it varies again: %+v", latest)
	}
	for range settled {
		latest = k.note(step(0, ramp(20, 6*mem.MiB)...), 11, nil)
	}
	if latest.varies() || latest.earlier != nil {
		t.Errorf("the steps are all the same now: %+v", latest)
	}
	// What was taken for one of the many comes again: it is a kind of its own.
	if again := k.note(step(0, ramp(20, 7*mem.MiB)...), 15, nil); again == latest || again.seen != 2 || again.varies() {
		t.Errorf("a size that came before: %+v", again)
	}
}

func TestRoomForgets(t *testing.T) {
	var r room
	r.note(100)
	for range remember - 1 {
		r.note(1)
	}
	if r.most() != 100 {
		t.Errorf("the peak of %d steps ago is forgotten", remember-1)
	}
	if r.note(1); r.most() != 1 {
		t.Errorf("the peak of %d steps ago is not forgotten", remember)
	}
}
