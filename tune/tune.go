// Package tune looks for the front of settings of the price for a program: the values of which none
// is better in everything.
//
// What memory costs in time is weighed by a few constants (engine/onerange/price.go), which were
// chosen by averages over many programs. For one program other values may waste less at no more
// of the driver's time, or the other way round. Each evaluation replays its recordings, as they
// are and with noise; MaOEA-CS (plan/solve/moea) says what to evaluate next.
package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/solve/moea"
	"stalloc/replay"
	"stalloc/trace"
)

// Options say how to search.
type Options struct {
	Replays  int     // at most
	Noise    float64 // share of requests that come or go in every second replay; 0: there is none
	Seed     uint64
	Workers  int // replays at once; the result is the same
	Capacity mem.Bytes
	Bounds   map[string][2]int64 // by key, within those of Settings
}

// Point is values and what they come to.
type Point struct {
	Values     Values
	Objectives Objectives
}

// population is how many values a generation has at least.
const population = 10

// ladder are the parts of the load that a search begins with, the default's and those around it:
// they alone span most of a front.
var ladder = []int64{384, 192, 768, 1536, 3072, 6144, 8192, 96}

// repeats is how many points there may be to one that costs replays: others round to values that
// are known.
const repeats = 2

// Run returns the front, by rising waste, and the point of the defaults. If the context ends, it
// returns the front of what was evaluated by then.
func Run(
	ctx context.Context, traces []*trace.Trace, o Options, tell func(done, total int),
) (front []Point, defaults Point, err error) {
	allocator, err := replay.Lookup("stalloc")
	if err != nil {
		return nil, defaults, err
	}
	e := &evaluator{allocator: allocator, capacity: o.Capacity, sides: 2,
		workers: max(o.Workers, 1)}
	if o.Noise == 0 {
		e.sides = 1
	}
	each := e.sides * len(traces)
	if o.Replays < each {
		return nil, defaults, fmt.Errorf("%d replays are too few: one point takes %d, "+
			"%d for each of %d recordings", o.Replays, each, e.sides, len(traces))
	}
	for _, tr := range traces {
		if len(tr.Steps()) == 0 {
			return nil, defaults, fmt.Errorf("%s has no steps to judge the driver's time by: "+
				"mark them while it is recorded", tr.Name)
		}
		e.pairs = append(e.pairs, [2]*trace.Trace{tr, tr.Disturb(o.Seed, o.Noise)})
	}
	s, err := o.search(repeats * o.Replays / each)
	if err != nil {
		return nil, defaults, err
	}
	done := 0
	count := func() {
		if done++; tell != nil {
			tell(done, o.Replays)
		}
	}
	found := map[Values]Objectives{}
	for points := s.Ask(); len(points) > 0 && ctx.Err() == nil; points = s.Ask() {
		var news []Values
		values := make([]Values, len(points))
		for i, x := range points {
			values[i] = valuesOf(x)
			if _, known := found[values[i]]; !known && !slices.Contains(news, values[i]) {
				news = append(news, values[i])
			}
		}
		news = news[:min(len(news), (o.Replays-done)/each)]
		got, whole, err := e.run(ctx, news, count)
		if err != nil {
			return nil, defaults, err
		}
		for i, v := range news {
			if whole[i] {
				found[v] = got[i]
			}
		}
		if o, known := found[Defaults()]; known && o[0] == failed {
			return nil, defaults, errors.New(
				"a run does not fit in the device by default: give it more with --capacity")
		}
		if ctx.Err() != nil || o.Replays-done < each {
			break
		}
		told := make([][]float64, len(points))
		for i, v := range values {
			o := found[v]
			told[i] = o[:]
		}
		if err := s.Tell(told); err != nil {
			return nil, defaults, err
		}
	}
	front, defaults = frontOf(found)
	return front, defaults, nil
}

// search begins one of so many evaluations.
func (o *Options) search(evaluations int) (*moea.Search, error) {
	p := moea.Problem{Objectives: len(Objectives{})}
	for _, s := range Settings {
		least, most := s.Least, s.Most
		if b, given := o.Bounds[s.Key]; given {
			if b[0] > b[1] || b[0] < least || b[1] > most {
				return nil, fmt.Errorf("%s from %s to %s: give a range within %s to %s, its lower end first",
					s.Key, s.text(b[0]), s.text(b[1]), s.text(least), s.text(most))
			}
			least, most = b[0], b[1]
		}
		p.Lower, p.Upper = append(p.Lower, variable(least)), append(p.Upper, variable(most))
	}
	for key := range o.Bounds {
		if !slices.ContainsFunc(Settings, func(s Setting) bool { return s.Key == key }) {
			return nil, fmt.Errorf("%q is no setting of the price: choose from %s", key, Keys())
		}
	}
	options := moea.Options{Evaluations: evaluations, Population: population, Seed: o.Seed}
	for _, part := range ladder {
		v := Defaults()
		v[0] = part
		x := make([]float64, len(v))
		for i, n := range v {
			x[i] = min(max(variable(n), p.Lower[i]), p.Upper[i])
		}
		if x[0] == variable(part) || len(options.First) == 0 { // within the bounds
			options.First = append(options.First, x)
		}
	}
	return moea.New(p, options)
}

// Keys lists the settings.
func Keys() string {
	text := ""
	for i, s := range Settings {
		if i > 0 {
			text += ", "
		}
		text += s.Key
	}
	return text
}

func valuesOf(x []float64) (v Values) {
	for i := range v {
		v[i] = Settings[i].value(x[i])
	}
	return v
}

// frontOf returns the points that none is better than, by rising waste.
func frontOf(found map[Values]Objectives) (front []Point, defaults Point) {
	var points []moea.Point
	var all []Values
	for v := range found {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Values) int { return slices.Compare(a[:], b[:]) })
	for _, v := range all {
		o := found[v]
		points = append(points, moea.Point{F: o[:]})
	}
	for _, p := range moea.Front(points) {
		i := slices.IndexFunc(points, func(q moea.Point) bool { return slices.Equal(p.F, q.F) })
		front = append(front, Point{all[i], Objectives(p.F)})
	}
	slices.SortStableFunc(front, func(a, b Point) int {
		return slices.Compare(a.Objectives[:], b.Objectives[:])
	})
	if o, known := found[Defaults()]; known {
		defaults = Point{Defaults(), o}
	}
	return front, defaults
}
