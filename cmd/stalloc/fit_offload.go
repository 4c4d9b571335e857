package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"stalloc/internal/mem"
	"stalloc/plan/residency"
	"stalloc/replay/offload"
	"stalloc/trace"
)

// offloadedTensors is the row of live tensors less the optimizer states between two steps.
const offloadedTensors = "states offloaded"

// offloading is what --offload asks for.
type offloading struct {
	on   bool
	link size
}

func (o *offloading) add(f *pflag.FlagSet) {
	o.link = 50e9
	f.BoolVar(&o.on, "offload", false,
		"also say what live tensors need with the optimizer states on the host between two steps")
	f.Var(&o.link, "link",
		"with --offload: what the link to the host carries in a second, each way"+amounts)
	f.Lookup("link").DefValue = "50GB"
}

// offloadResult is what --offload tells of a recording.
type offloadResult struct {
	Size     int64     `json:"size"`
	States   mem.Bytes `json:"states_bytes"`
	Blocks   int       `json:"states_blocks"`
	Inferred bool      `json:"inferred"` // the recording does not mark where the optimizer begins
	Whole    mem.Bytes `json:"whole_bytes"`
	Fits     mem.Bytes `json:"fits_bytes"`
	Step     int64     `json:"step_ns"`
	Longer   int64     `json:"longer_ns"`
	Link     int64     `json:"link_bytes_per_second"`
}

// results tells of live tensors with the optimizer states offloaded; of none without --offload.
// growth is nil where runs of other sizes cannot be made up.
func (o *offloading) results(f *fitFlags, runs []sized, traces []*trace.Trace,
	growth *trace.Growth) []fitResult {
	if !o.on {
		return nil
	}
	link := residency.Link{Out: int64(o.link), Back: int64(o.link)}
	fits, all := &needed{}, []offloadResult{}
	for i, tr := range traces {
		a, err := offload.Tell(tr, link)
		if err != nil {
			fits.trouble = fmt.Errorf("size %d: %w", runs[i].size, err)
			break
		}
		fits.add(runs[i].size, a.Fits, 0)
		all = append(all, offloadResult{runs[i].size, a.States, a.Blocks, !a.Marked, a.Whole,
			a.Fits,
			int64(a.Step), int64(a.Longer), link.Out})
	}
	if growth != nil {
		fits.along = func(size float64) float64 {
			tr := growth.At(size)
			if a, err := offload.Tell(tr, link); err == nil {
				return float64(a.Fits)
			}
			return float64(tr.PeakLoad())
		}
	}
	_, r := f.result(offloadedTensors, figureFits, fits)
	r.Offload = all
	return []fitResult{r}
}

// notes says of each recording what offloading does.
func (r *fitResult) notes() string {
	var b strings.Builder
	for _, o := range r.Offload {
		how := ""
		if o.Inferred {
			how = ", found by their lives"
		}
		fmt.Fprintf(&b, "size %d: with optimizer states offloaded (%v%s)\n", o.Size, o.States, how)
		fmt.Fprintf(&b, "live tensors fit in %v instead of %v; a step of %.0f ms takes\n",
			o.Fits.Up(),
			o.Whole.Up(), float64(o.Step)/1e6)
		fmt.Fprintf(&b, "about %.0f ms longer on a link of %.4g GB/s\n", float64(o.Longer)/1e6,
			float64(o.Link)/1e9)
	}
	return b.String()
}
