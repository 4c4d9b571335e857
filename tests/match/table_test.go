package match

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"stalloc/plan"
)

var names = []string{"mixtral_moe", "qwen2moe_recompute", "megatron_moer.r0", "llama_varlen", "vit_streams", "llama_naive", "gpt2_naive", "llama_recompute", "llama_lora", "llama_vpp", "megatron_vpp.r0"}

var debugWhy func(r *run, t testing.TB, p *plan.Plan, k int)

func TestTable(t *testing.T) {
	names, noises := names, []float64{0, 0.001, 0.01}
	if e := os.Getenv("NAMES"); e != "" {
		names = strings.Fields(e)
	}
	if e := os.Getenv("NOISES"); e != "" {
		noises = nil
		for _, f := range strings.Fields(e) {
			n, _ := strconv.ParseFloat(f, 64)
			noises = append(noises, n)
		}
	}
	for _, name := range names {
		for _, noise := range noises {
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
			t.Logf("%-20s noise %.3f over %7.3f %% arena %v pool %v peak %v hits %.1f/%.1f%% guests %.1f/%.1f%% slots %d/%d pages %d plan %v %.0f ns/req", name, noise, x.over(), x.arena, x.pool, x.peak,
				100*float64(x.hits)/float64(x.requests), 100*float64(x.hitBytes)/float64(x.bytes), 100*float64(x.guests)/float64(x.requests), 100*float64(x.guestBytes)/float64(x.bytes), fix, all, x.pages, made.Round(time.Millisecond), float64(d.Nanoseconds())/float64(x.requests))
			if debugWhy != nil {
				debugWhy(r, t, p, k)
			}
		}
	}
}
