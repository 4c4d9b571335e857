package replay

import (
	"testing"

	"stalloc/internal/mem"
)

// loose are the recordings that need more above their load than hardly: blocks that lie in views
// lose up to a handle each, and in the pipeline blocks wait for other streams when the load is
// highest.
var loose = map[string]float64{
	"gpt2_naive": 0.0075, "mixtral_moe": 0.006, "pyg_gat": 0.0075, "llama_lora": 0.008,
	"llama_naive":            0.013,
	"more/megatron_vpp24.r0": 0.008, "more/megatron_vpp24.r1": 0.013,
}

// TestHardlyMoreThanTheLoad: every recording runs on a device with hardly more memory than its
// blocks need, which native cannot, nor GMLake but in llama_naive, with 0.05 % less.
func TestHardlyMoreThanTheLoad(t *testing.T) {
	const fewEvents = 100_000 // the long ones would take minutes and add nothing to these
	ran, all := 0, recordings(t)
	for _, tr := range all {
		if len(tr.Events) > fewEvents {
			continue
		}
		ran++
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			load := tr.PeakLoad()
			more := max(0.005, loose[tr.Name])
			full := Config{Capacity: mem.RoundUp(load+mem.Bytes(more*float64(load)),
				mem.HandleSize), FragLimit: DefaultFragLimit}
			if got := replayed(t, tr, "stalloc", full); got.OOM {
				t.Errorf("out of memory after %d requests; the load's peak is %v of %v",
					got.Requests, load, full.Capacity)
			}
			for _, peer := range []string{"native", "gmlake"} {
				if got := replayed(t, tr, peer, full); !got.OOM &&
					(peer != "gmlake" || tr.Name != "llama_naive") {
					t.Errorf("%s has room, too: the device is not full", peer)
				}
			}
		})
	}
	if ran < min(8, len(all)) {
		t.Errorf("only %d recordings are short enough", ran)
	}
}

// TestMixedHandles replays a pipeline on a device on which a block of a view was to begin after the
// view's first handle, which was smaller than the one that it had been measured with: it shared
// bytes with another.
func TestMixedHandles(t *testing.T) {
	for _, tr := range recordings(t) {
		if tr.Name == "more/megatron_vpp.r3" {
			replayed(t, tr, "stalloc", Config{Capacity: 45_832 * mem.MiB})
			replayed(t, tr, "stalloc", Config{Capacity: 45_848 * mem.MiB})
		}
	}
}
