package match

import (
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan"
)

var names = []string{"mixtral_moe", "qwen2moe_recompute", "megatron_moer.r0", "llama_varlen", "vit_streams", "llama_naive", "gpt2_naive", "llama_recompute", "llama_lora", "llama_vpp", "megatron_vpp.r0"}

func TestTable(t *testing.T) {
	for _, name := range names {
		for _, noise := range []float64{0, 0.001, 0.01} {
			r := load(t, name).disturb(1, noise)
			steps := r.observe()
			k := len(steps) - 1
			t0 := time.Now()
			p, err := plan.MakeIrregular(steps[max(1, k-3):k], plan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			made := time.Since(t0)
			t0 = time.Now()
			x := r.serve(t, p, k, false)
			d := time.Since(t0)
			var fix, all int
			for _, s := range p.Streams[0].Slots {
				all++
				if !s.Pool {
					fix++
				}
			}
			t.Logf("%-20s noise %.3f over %7.3f %% arena %v pool %v peak %v hits %.1f/%.1f%% guests %.1f/%.1f%% slots %d/%d plan %v %.0f ns/req", name, noise, x.over(), x.arena, x.pool, x.peak,
				100*float64(x.hits)/float64(x.requests), 100*float64(x.hitBytes)/float64(x.bytes), 100*float64(x.guests)/float64(x.requests), 100*float64(x.guestBytes)/float64(x.bytes), fix, all, made.Round(time.Millisecond), float64(d.Nanoseconds())/float64(x.requests))
		}
	}
	_ = mem.Grain
}
