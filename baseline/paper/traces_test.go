package paper

import (
	"path/filepath"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
	"stalloc/trace"
)

// repeating are recordings whose steps ask for the same, to the byte: what is wasted is what the
// planner does, and a handle for cells.
var repeating = map[string]bool{
	"gpt2_naive": true, "llama_naive": true, "llama_recompute": true, "llama_vpp": true,
	"llama_lora": true, "llama_accum": true, "llama_vpp_recompute": true, "vit_streams": true,
	"megatron_dense.r0": true, "megatron_vpp.r0": true, "megatron_vpp2.r0": true,
	"megatron_vpp.r3": true, "megatron_vppr.r3": true,
}

// TestTraces replays every recording with every plan of its profile, streams ignored, as
// published: no two live blocks overlap, and where steps repeat next to nothing is wasted.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("../../tests/traces/*.csv.gz")
	more, _ := filepath.Glob("../../tests/traces/*/*.csv.gz")
	if files = append(files, more...); err != nil || len(files) < 41 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		tr, err := trace.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Read(tr, true)
		if err != nil {
			t.Fatal(err)
		}
		load := tr.PeakLoad()
		for i, plan := range p.variants() {
			a := newAllocator(t, baseline.Options{Capacity: plenty}, plan)
			run(t, tr, a)
			reserved := a.Stats().PeakReserved
			hits, misses := a.Served()
			t.Logf("%s, plan %d: %v reserved for %v, %d hits, %d misses", tr.Name, i, reserved,
				load, hits, misses)
			if reserved < load-load/100 { // late frees count until they complete
				t.Errorf("%s: %v reserved, less than the load, %v", tr.Name, reserved, load)
			}
			if repeating[tr.Name] && float64(reserved) > 1.006*float64(load) {
				t.Errorf("%s repeats, and %v are reserved for %v", tr.Name, reserved, load)
			}
		}
	}
}

// TestDrawing: the planner's places are a placement, and what is idle for a module is free of all
// that the plan has there while its blocks live.
func TestDrawing(t *testing.T) {
	for _, tr := range []*trace.Trace{training(4, nothing), experts(4)} {
		p, err := Read(tr, false)
		if err != nil {
			t.Fatal(err)
		}
		plan, d := p.place(p.modules)
		if err := dsa.Check(&d.problem, d.at); err != nil {
			t.Errorf("%s: %v", tr.Name, err)
		}
		if tr.Name != "experts" {
			continue
		}
		windows := 0
		for which, modules := range d.idle(plan) {
			for module, free := range modules {
				windows++
				checkIdle(t, d, which, module, free)
			}
		}
		if windows < 18 {
			t.Errorf("%d modules in two steps, expected about ten in each", windows)
		}
	}
}

// checkIdle compares with every buffer and every block of the module, one by one.
func checkIdle(t *testing.T, d *drawing, step int, module int32, free idle) {
	t.Helper()
	for n, r := range d.p.requests {
		if d.modules[n] != module || r.step != step {
			continue
		}
		for i, b := range d.problem.Buffers {
			if b.Lower >= mem.Tick(r.dead) || b.Upper <= mem.Tick(r.born) {
				continue
			}
			for _, s := range free {
				if s.from < d.at[i]+mem.Offset(b.Size) && d.at[i] < s.to {
					t.Fatalf("module %d of step %d: [%d, %d) is idle, and buffer %d lies at %d",
						module, step, s.from, s.to, i, d.at[i])
				}
			}
		}
	}
}
