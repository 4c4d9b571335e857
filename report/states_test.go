package report

import (
	"strings"
	"testing"
)

// TestIdleStates: a report says in how much less memory the run fits with its states on the host;
// not of LoRA, whose states are small, nor where the peak is the optimizer's own.
func TestIdleStates(t *testing.T) {
	for name, want := range map[string]string{
		"gpt2_naive":         "fit in 36.34 GiB instead of 47.93 GiB, and a step of 253 ms takes about 296 ms longer",
		"hf_trainer":         "(172 blocks) look like optimizer states",
		"llama_lora":         "",
		"qwen2moe_recompute": "",
	} {
		tr := readRun(t, traceFile(name))
		f := idleStates(tr)
		if (f.Kind == States) != (want != "") || !strings.Contains(f.Text, want) ||
			(f.Bytes > 0) != (want != "") || !strings.Contains(f.Do, "stalloc.offload") &&
			want != "" {
			t.Errorf("%s: %+v, want %q", name, f, want)
		}
	}
	d, page, _ := made(t, traceFile("llama_naive"), options)
	found := false
	for _, f := range d.Findings {
		found = found || f.Kind == States && strings.Contains(page, "on a link of 50 GB/s")
	}
	if !found {
		t.Errorf("the page does not say what offloading saves: %+v", d.Findings)
	}
}
