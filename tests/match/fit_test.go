package match

import (
	"fmt"
	"math"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

var names = []string{"mixtral_moe", "qwen2moe_recompute", "megatron_moer.r0", "llama_varlen", "vit_streams",
	"llama_naive", "gpt2_naive", "llama_recompute", "llama_lora", "llama_vpp", "megatron_vpp.r0",
	"fine_moe", "packed_varlen", "multiscale_resnet"}

// learned is how many steps a plan is made from.
const learned = 3

// fit plans the last step of a run from the steps before it and serves it.
func (r *run) fit(t testing.TB, o options) result {
	t.Helper()
	steps := r.observe()
	k := len(steps) - 1
	return r.serve(t, made(t, steps[max(1, k-learned):k], o), k, o)
}

// made plans the last of some steps.
func made(t testing.TB, steps [][]*plan.Step, o options) *plan.Plan {
	t.Helper()
	last := len(steps) - 1
	p, err := plan.MakeRun(plan.Run{Steady: steps[last:], Earlier: [][][]*plan.Step{steps[:last]}, Envelope: o.envelope}, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// largest is the peak load of the run up to its last step: memory that the run
// has held before is held still.
func (r *run) largest() mem.Bytes {
	var load, peak mem.Bytes
	for _, s := range r.steps {
		for _, e := range s {
			switch e.kind {
			case begin:
				load += e.size
				peak = max(peak, load)
			case end:
				load -= e.size
			}
		}
	}
	return peak
}

// above returns by how many percent what was held lies above the largest load.
func (r *run) above(x result) float64 {
	return 100 * (float64(x.arena+x.pool)/float64(r.largest()) - 1)
}

// TestIrregularStepsFit holds the irregular recordings to their bars: held memory
// over the largest load, in percent.
func TestIrregularStepsFit(t *testing.T) {
	for _, c := range []struct {
		name string
		most float64
	}{
		{"mixtral_moe", 0.3}, {"megatron_moer.r0", 0.3}, {"fine_moe", 0.3},
		{"llama_varlen", 0.01}, {"vit_streams", 0.01},
	} {
		r := load(t, c.name, 0)
		x := r.fit(t, options{tuning: stream.Tunings[0]})
		t.Logf("%-17s %.3f %% above, %.1f %% of the bytes in slots, %.1f %% guests", c.name, r.above(x), share(x.hitBytes, x.bytes), share(x.guestBytes, x.bytes))
		if r.above(x) > c.most {
			t.Errorf("%s: %.3f %% above the largest load, want at most %v", c.name, r.above(x), c.most)
		}
	}
}

// TestAllVariantsKeepTheGuard recounts everything while noise is served.
func TestAllVariantsKeepTheGuard(t *testing.T) {
	r := load(t, "llama_naive", 0.02)
	for k := range r.steps {
		r.steps[k] = r.steps[k][:min(len(r.steps[k]), 900)]
	}
	for i, tuning := range stream.Tunings {
		x := r.fit(t, options{tuning: tuning, check: true})
		if x.hits == 0 {
			t.Errorf("variant %d served nothing", i)
		}
	}
}

func share(part, of mem.Bytes) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// BenchmarkFit is the table: for each recording and noise the memory held over the
// step's own peak and over the run's, in percent, the shares of slots and guests,
// and the time a request takes in Go, its free included.
func BenchmarkFit(b *testing.B) {
	for _, name := range names {
		for _, rate := range []float64{0, 0.001, 0.01} {
			for _, envelope := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/noise=%v/envelope=%v", name, rate, envelope), func(b *testing.B) {
					r := load(b, name, rate)
					steps := r.observe()
					k := len(steps) - 1
					o := options{tuning: stream.Tunings[0], envelope: envelope}
					p := made(b, steps[max(1, k-learned):k], o)
					var x result
					for b.Loop() {
						x = r.serve(b, p, k, o)
					}
					b.ReportMetric(math.Round(1000*x.over())/1000, "%own")
					b.ReportMetric(math.Round(1000*r.above(x))/1000, "%run")
					b.ReportMetric(share(x.hitBytes, x.bytes), "%slots")
					b.ReportMetric(share(x.guestBytes, x.bytes), "%guests")
					b.ReportMetric(float64(x.spent.Nanoseconds())/float64(x.requests), "ns/request")
				})
			}
		}
	}
}
