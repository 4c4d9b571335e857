package pareto

import (
	"math"
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

func TestHypervolume(t *testing.T) {
	ones := Values{1, 1, 1, 1}
	half := Point{Values: Values{0.5, 0.5, 0.5, 0.5}}
	for want, front := range map[float64][]Point{
		0:      nil,
		0.0625: {half, half},
		// Two that cross: each has 1/8 alone, and 1/16 is in both.
		0.1875: {{Values: Values{0, 0.5, 0.5, 0.5}}, {Values: Values{0.5, 0, 0.5, 0.5}}},
		1:      {{}, half},
	} {
		if got := Hypervolume(front, ones); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, expected %v", front, got, want)
		}
	}
	// Against counting random points.
	rng := rand.New(rand.NewPCG(1, 1))
	var front []Point
	for range 12 {
		front = append(front, Point{Values: Values{rng.Float64(), rng.Float64(), rng.Float64(),
			rng.Float64()}})
	}
	inside, all := 0, 100_000
	for range all {
		x := Values{rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()}
		for _, p := range front {
			if dominates(p.Values, x) {
				inside++
				break
			}
		}
	}
	if got, want := Hypervolume(front,
		ones), float64(inside)/float64(all); math.Abs(got-want) > 0.01 {
		t.Errorf("%v, counted %v", got, want)
	}
}

func TestSearches(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	p := &dsa.Problem{}
	for range 200 {
		lower := rng.IntN(500)
		p.Buffers = append(p.Buffers, dsa.Buffer{Lower: mem.Tick(lower),
			Upper: mem.Tick(lower + 1 + rng.IntN(200)), Size: mem.Bytes(1+rng.IntN(40)) * mem.MiB})
	}
	e := newEvaluator(p)
	if v := e.values(e.old); v[2] != 0 || v[0] < 0 || v[1] < 0 || v[3] <= 0 {
		t.Errorf("the plan before: %v", v)
	}
	for _, s := range Searches {
		points := s.Run(p, 60, 1)
		front := Front(points)
		if len(points) != 60 || len(front) < 2 {
			t.Errorf("%s: %d points, %d of the front", s.Name, len(points), len(front))
		}
		for _, x := range front {
			offsets := e.place(x.Genome)
			if err := dsa.Check(p, offsets); err != nil || e.values(offsets) != x.Values {
				t.Fatalf("%s: %v; %v, expected %v", s.Name, err, e.values(offsets), x.Values)
			}
			for _, y := range points {
				if dominates(y.Values, x.Values) {
					t.Fatalf("%s: %v is dominated by %v", s.Name, x.Values, y.Values)
				}
			}
		}
		if again := Front(s.Run(p, 60, 1)); len(again) != len(front) || again[0] != front[0] {
			t.Errorf("%s: another front for the same seed", s.Name)
		}
	}
}

// TestLate: what is followed too soon counts, what is followed later does not.
func TestLate(t *testing.T) {
	p := &dsa.Problem{Buffers: []dsa.Buffer{{Lower: 0, Upper: 100, Size: 5},
		{Lower: 104, Upper: 1000, Size: 7}, {Lower: 0, Upper: 500, Size: 9}, {Lower: 900,
			Upper: 901, Size: 9}}}
	e := newEvaluator(p)
	if got := e.late([]mem.Offset{0, 0, 7, 7}); got != 5 {
		t.Errorf("%v bytes, expected the 5 of the first", got)
	}
}

// TestServe: what is in the way of a planned offset sends its buffer to the lowest place that is
// free.
func TestServe(t *testing.T) {
	planned := []mem.Offset{0, 4, 0, 6}
	buffers := []dsa.Buffer{{Lower: 0, Upper: 5, Size: 4}, {Lower: 0, Upper: 9, Size: 2},
		{Lower: 5, Upper: 9, Size: 3}, {Lower: 6, Upper: 9, Size: 1}}
	if top := serve(buffers, planned); top != 7 {
		t.Errorf("in time it ends at %d, expected 7", int64(top))
	}
	// the third goes above all, and the fourth into what the first left, if it cannot be at 6
	buffers[0].Upper = 6
	if top := serve(buffers, planned); top != 9 {
		t.Errorf("one is late, and it ends at %d, expected 9", int64(top))
	}
}

// TestDisturbed: undisturbed a replay ends where the placement does; a margin that covers all
// delays costs the same whoever is late; noise leaves out and inserts as many requests as it says.
func TestDisturbed(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	p := &dsa.Problem{}
	for i := range 300 {
		p.Buffers = append(p.Buffers, dsa.Buffer{Lower: mem.Tick(10 * i),
			Upper: mem.Tick(10*i + 1 + rng.IntN(600)), Size: mem.Bytes(1 + rng.IntN(40))})
	}
	points := Front(Random(p, 40, 1))
	for i, above := range Disturbed(p, points, Disturbance{}, 1) {
		if math.Abs(above-points[i].Values[0]) > 1e-12 {
			t.Errorf("undisturbed point %d ends %v above the load, planned %v", i, above,
				points[i].Values[0])
		}
	}
	tight, slack := points[0], points[0]
	tight.Genome[genes-1] = 0
	slack.Genome[genes-1] = lateShare / mostMargin * 1.1
	all := Disturbed(p, []Point{tight, slack}, Disturbance{Late: 1}, 1)
	e := newEvaluator(p)
	if !(all[0] > e.values(e.place(tight.Genome))[0] && all[1] < all[0]) {
		t.Errorf("all are late: %v above the load without a margin, %v with one", all[0], all[1])
	}
	left, inserted := len(p.Buffers), 0
	buffers, of := e.disturb(Disturbance{Noise: 0.2}, rng)
	for k, buffer := range of {
		if buffer == unplanned {
			inserted++
		} else if left--; buffers[k] != p.Buffers[buffer] {
			t.Errorf("buffer %d is %v, planned %v", buffer, buffers[k], p.Buffers[buffer])
		}
	}
	if left < 15 || left > 45 || inserted < 15 || inserted > 45 {
		t.Errorf("of 300 requests %d are left out and %d inserted, expected some 30 each", left,
			inserted)
	}
	if noisy := Disturbed(p, []Point{tight}, Disturbance{Noise: 0.2},
		1); noisy[0] <= tight.Values[0] {
		t.Errorf("with noise a tight placement ends %v above the load", noisy[0])
	}
}

// TestHandles counts them against a naive set, and those of a buffer that no set would hold.
func TestHandles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 200 {
		var ranges [][2]mem.Bytes
		touched := map[mem.Bytes]bool{}
		for range rng.IntN(20) {
			from := mem.Bytes(rng.IntN(60))
			to := from + mem.Bytes(rng.IntN(9))
			ranges = append(ranges, [2]mem.Bytes{from, to})
			for h := from; h <= to; h++ {
				touched[h] = true
			}
		}
		if got := handles(ranges); int(got) != len(touched) {
			t.Fatalf("%v: %d, counted %d", ranges, got, len(touched))
		}
	}
	e := newEvaluator(&dsa.Problem{Buffers: []dsa.Buffer{{Lower: 0, Upper: 1, Size: 1 << 60}}})
	if v := e.values(e.old); v != (Values{}) {
		t.Errorf("one buffer: %v", v)
	}
}

// TestNothingLeft: a replay that leaves out all that takes memory ends no higher than its load.
func TestNothingLeft(t *testing.T) {
	p := &dsa.Problem{Buffers: []dsa.Buffer{{Lower: 0, Upper: 2, Size: 1}}}
	for seed := range uint64(40) {
		if above := Disturbed(p, []Point{{}}, Disturbance{Noise: 1}, seed); above[0] < 0 ||
			math.IsNaN(above[0]) || math.IsInf(above[0], 0) {
			t.Fatalf("seed %d: %v", seed, above)
		}
	}
}
