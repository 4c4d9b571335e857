package report

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// compared are the allocators that the verdict is of: those that a user chooses from.
var compared = []string{"native", "expandable", "stalloc"}

// inWords are their names in a sentence.
var inWords = map[string]string{
	"native": "PyTorch's native allocator", "expandable": "expandable segments",
	"stalloc": "stalloc",
}

// noDifference is the share of the load below which two figures count as the same: twice
// as much as they are found to, and no more than two runs differ by.
const noDifference = 0.002

// findSizes finds the two figures of the allocators that are compared, side by side.
func findSizes(ctx context.Context, tr *trace.Trace, runs []*run, o Options) error {
	errs := make([]error, len(runs))
	var wait sync.WaitGroup
	for i, a := range replay.Allocators {
		if _, wanted := inWords[a.Name]; !wanted {
			continue
		}
		wait.Go(func() {
			var found replay.Sizes
			found, errs[i] = a.Smallest(ctx, tr, config(o), runs[i].result.PeakReserved, nil)
			runs[i].result.FitsIn, runs[i].result.FullSpeedIn = found.FitsIn, found.FullSpeedIn
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("the smallest device under %s: %w", replay.Allocators[i].Name, err)
		}
	}
	return nil
}

// figure is one of the two figures, by allocator; 0 for none.
type figure map[string]mem.Bytes

// figures are the two: what the run fits in, and what it runs at full speed in. The second is
// nil where the recording has no steady part, both where nobody looked for them.
func (d *Data) figures() (fits, speed figure) {
	fits, speed, steady := make(figure), make(figure), false
	for _, a := range d.Allocators {
		if a.FitsIn > 0 {
			fits[a.Name], speed[a.Name] = a.FitsIn, a.FullSpeedIn
			steady = steady || a.SteadyMillis > 0 || a.FullSpeedIn > 0
		}
	}
	switch {
	case len(fits) == 0:
		return nil, nil
	case !steady:
		return fits, nil
	}
	return fits, speed
}

// verdict says in sentences what the two figures come to; none where nobody looked for them.
func verdict(d *Data) []string {
	fits, speed := d.figures()
	if fits == nil {
		return nil
	}
	said := []string{"The run fits in " + listed(fits) + "."}
	if speed == nil {
		said = append(said, "The recording has no steady part, so how much memory full speed takes is unknown: record more steps.")
		return append(said, advice(fits, " to fit", d.Peak.Load))
	}
	said = append(said, "It runs at full speed in "+listed(speed)+".")
	return append(said, advice(speed, " at full speed", d.Peak.Load))
}

// listed is a figure in words: how much under each of the allocators that have one.
func listed(f figure) string {
	var some, never []string
	for _, name := range compared {
		if f[name] == 0 {
			never = append(never, inWords[name])
			continue
		}
		some = append(some, fmt.Sprintf("%v under %s", f[name].Up(), inWords[name]))
	}
	text := "no memory at all" // nothing has the figure
	if len(some) > 0 {
		text = strings.Join(some, ", ")
	}
	if len(never) > 0 && len(some) > 0 {
		text += ", and in none under " + strings.Join(never, " and ")
	}
	return text
}

// advice says first which allocator to use for a figure, then what it saves against the better of
// the others, and against native if that is another one.
func advice(f figure, when string, load mem.Bytes) string {
	near := func(a, b mem.Bytes) bool {
		return max(a-b,
			b-a) <= mem.Bytes(noDifference*float64(load))
	}
	native, ours := f["native"], f["stalloc"]
	other, name := best(native, f["expandable"])
	switch {
	case ours == 0 && other == 0:
		return "No allocator runs it" + when + "."
	case ours == 0:
		return "Use " + inWords[name] + ": stalloc cannot run it" + when + "."
	case other == 0:
		return "Use stalloc: only it runs" + when + "."
	case near(ours, other):
		text := upper(inWords[name]) + " " + does[name] + ": stalloc is no better" + when + "."
		if name == "expandable" {
			text += " PYTORCH_ALLOC_CONF=expandable_segments:True is all you need."
		}
		return text
	case ours > other:
		return fmt.Sprintf("Use %s: stalloc needs %v more%s.", inWords[name], ours-other, when)
	}
	text := fmt.Sprintf("Use stalloc: it saves %v of what %s%s", other-ours, needs[name], when)
	if name != "native" && native > 0 && !near(native, other) {
		text += fmt.Sprintf(", and %v of what native needs", native-ours)
	}
	return text + "."
}

// does and needs are the verbs for allocators in a sentence.
var (
	does  = map[string]string{"native": "does", "expandable": "do"}
	needs = map[string]string{"native": "native needs", "expandable": "expandable segments need"}
)

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// best is the better of native's figure and that of expandable segments, and whose it is.
func best(native, expandable mem.Bytes) (mem.Bytes, string) {
	if expandable == 0 || native != 0 && native <= expandable {
		return native, "native"
	}
	return expandable, "expandable"
}
