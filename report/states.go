package report

import (
	"fmt"

	"stalloc/plan/residency"
	"stalloc/replay/offload"
	"stalloc/trace"
)

// link is what the host's carries in bytes a second, each way; stalloc fit takes another one.
const link = 50e9

// idleStates are the optimizer's states, where the run would fit in less without them between two
// optimizer steps. A recording without states has none.
func idleStates(tr *trace.Trace) Finding {
	a, err := offload.Tell(tr, residency.Link{Out: link, Back: link})
	if err != nil || a.Fits >= a.Whole {
		return Finding{}
	}
	return Finding{States, a.Whole - a.Fits,
		fmt.Sprintf("%v (%d blocks) look like optimizer states, idle but for the optimizer's step: with them on the host meanwhile, live tensors fit in %v instead of %v, and a step of %.0f ms takes about %.0f ms longer on a link of %.4g GB/s.",
			a.States, a.Blocks, a.Fits.Up(), a.Whole.Up(), float64(a.Step)/1e6,
			float64(a.Longer)/1e6, link/1e9),
		"Let them leave while they are idle: optimizer = stalloc.offload(optimizer)."}
}
