package tune

import (
	"context"
	"fmt"
	"sync"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// Objectives are what values come to, all in percent, the less the better; averages over
// recordings.
type Objectives [5]float64

// Names and Abouts are the objectives, in their order.
var (
	Names  = [len(Objectives{})]string{"waste", "device", "driver", "first_eight", "noisy_waste"}
	Abouts = [len(Objectives{})]string{
		"1 - peak load / peak reserved",
		"a bound on the memory above the load that full speed needs: peak reserved / peak load - 1, " +
			"times the driver's share of the steady part in percent, if that is above 1",
		"the driver's share of the steady part",
		"the driver's share of the first eight steps",
		"waste where requests come and go, as --noise says",
	}
)

const (
	firstSteps = 8
	failed     = 1000 // percent: of values with which a run does not fit, though by default it does
)

// evaluator replays.
type evaluator struct {
	allocator replay.Allocator
	capacity  mem.Bytes
	pairs     [][2]*trace.Trace // as it was recorded, and with noise
	sides     int               // 1: there is no noise, and one replay stands for both
	workers   int
}

// run returns the objectives of some values; replays that the context ended have no result, and
// done says which are whole.
func (e *evaluator) run(
	ctx context.Context, all []Values, tell func(),
) (out []Objectives, done []bool, err error) {
	type job struct{ value, pair, side int }
	jobs := make(chan job)
	results := make([][][2]*replay.Result, len(all))
	for i := range results {
		results[i] = make([][2]*replay.Result, len(e.pairs))
	}
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range e.workers {
		workers.Go(func() {
			for j := range jobs {
				c := replay.Config{Capacity: e.capacity, Range: all[j.value].Config(),
					Unwatched: true}
				r, failure := e.allocator.Replay(ctx, e.pairs[j.pair][j.side], c, nil)
				mu.Lock()
				if failure == nil {
					for side := j.side; side < 2; side += e.sides {
						results[j.value][j.pair][side] = &r
					}
				} else if ctx.Err() == nil && err == nil {
					err = fmt.Errorf("%s with %q: %w", e.pairs[j.pair][0].Name, all[j.value].Conf(),
						failure)
				}
				tell()
				mu.Unlock()
			}
		})
	}
	for value := range all {
		for pair := range e.pairs {
			for side := range e.sides {
				jobs <- job{value, pair, side}
			}
		}
	}
	close(jobs)
	workers.Wait()
	out, done = make([]Objectives, len(all)), make([]bool, len(all))
	for i, by := range results {
		out[i], done[i] = average(by)
	}
	return out, done, err
}

func average(by [][2]*replay.Result) (mean Objectives, whole bool) {
	for _, pair := range by {
		if pair[0] == nil || pair[1] == nil {
			return mean, false
		}
		for k, v := range objectives(pair[0], pair[1]) {
			mean[k] += v / float64(len(by))
		}
	}
	return mean, true
}

func objectives(r, noisy *replay.Result) (o Objectives) {
	if r.OOM || noisy.OOM {
		for k := range o {
			o[k] = failed
		}
		return o
	}
	micros, total := 0.0, int64(0)
	for _, s := range r.Steps[:min(firstSteps, len(r.Steps))] {
		micros += s.DriverTimeUS
		total += s.TimeUS
	}
	driver := 100 * r.SteadyDriverTimeUS / float64(max(r.SteadyTimeUS, 1))
	device := 100 * (float64(r.PeakReserved)/float64(max(r.PeakLoad, 1)) - 1)
	return Objectives{
		100 * r.Fragmentation, device * max(driver, 1), driver,
		100 * micros / float64(max(total, 1)), 100 * noisy.Fragmentation,
	}
}
