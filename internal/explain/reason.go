package explain

import (
	"fmt"

	"stalloc/internal/mem"
)

// Reason says in a sentence why the request was refused, or "" if none was.
func (f *Figures) Reason() string {
	switch {
	case f.Asked == 0:
		return ""
	case f.Total > 0 && f.Asked > f.Total:
		return fmt.Sprintf("%v alone is more than the device has, %v", f.Asked, f.Total)
	case f.Why == TooLarge:
		return "no block can be that large: it exceeds the memory of the device"
	case f.Limit > 0 && f.Asked > f.Limit && f.Why == Limit:
		return fmt.Sprintf("%v alone is more than the limit, %v", f.Asked, f.Limit)
	case f.Limit > 0 && f.Why == Limit:
		return fmt.Sprintf("the limit of %v is reached", f.Limit)
	case f.Why == Full, f.Why == Limit: // without a limit the device is what ends it
		return "the device has no memory left"
	case f.Why == Window:
		return "the addresses that were reserved are used up"
	case f.Why == Driver:
		return fmt.Sprintf("the driver failed with error %d", f.Code)
	}
	return "it was refused"
}

// Advice is what to try, the most promising first. Nothing is advised that the figures do
// not bear out.
func (f *Figures) Advice() []string {
	if f.Asked == 0 {
		return nil
	}
	if f.Asked > f.Total && f.Total > 0 || f.Why == TooLarge {
		return []string{"Look at the shape that was asked for: no device of this kind can hold it."}
	}
	switch f.Why {
	case Window:
		return []string{"Reserve more addresses, they cost no memory: STALLOC_CONF=window:SIZE."}
	case Driver:
		return []string{"Look the error up in the driver's documentation; after a failed kernel every call fails."}
	}
	var tips []string
	tip := func(format string, args ...any) { tips = append(tips, fmt.Sprintf(format, args...)) }
	short, isShort := f.Short()
	if f.Limit > 0 && f.Why == Limit && f.Free >= f.Asked {
		tip("Raise the limit: %v of the device are free.", f.Free)
	}
	if h, ok := f.largestOther(); ok && isShort && h.Used >= short {
		tip("End process %d%s, which holds %v: that is enough.", h.PID, parenthesis(h.Name), h.Used)
	}
	if isShort && f.Pending >= short && f.Pending > 0 {
		tip("%v are freed and wait for other streams: torch.cuda.synchronize() before here, or fewer record_stream().", f.Pending)
	}
	if f.LateFences > 0 {
		tip("The driver records no event on a stream that freed memory waits for: is it being captured, or destroyed?")
	}
	if f.Private >= short && isShort && f.Private > 0 {
		tip("%v lie idle in private pools: release CUDA graphs that are not needed.", f.Private)
	}
	if f.NoStitching && f.Whole >= f.Asked {
		tip("Stitching is off, and %v in free pages could be put together: STALLOC_CONF=stitch:on.",
			f.Whole)
	}
	for _, p := range f.Phases {
		if p.Between && p.Bytes > f.Allocated/20 {
			tip("%v of %s are still live: does the program keep something of each step, a loss with its graph for example?", p.Bytes, p.Name)
		}
	}
	if isShort {
		tip("Use %v less: a smaller batch or sequence, activation checkpointing, or offloading.",
			short)
	}
	if s, ok := f.dominant(); ok {
		what := "live blocks of %v are"
		if s.Blocks == 1 {
			what = "live block of %v is"
		}
		tip("%d "+what+" %.0f %% of the load: look here first.", s.Blocks, s.Size,
			100*float64(s.Sum())/float64(f.Allocated))
	}
	return tips
}

// largestOther is the process, other than this one, that holds the most.
func (f *Figures) largestOther() (best Holder, ok bool) {
	for _, h := range f.Holders {
		if !h.Self && h.Used > best.Used {
			best, ok = h, true
		}
	}
	return best, ok
}

// dominant is a size that makes a quarter of the load or more.
func (f *Figures) dominant() (Size, bool) {
	for _, s := range f.Sizes {
		if f.Allocated > 0 && s.Sum() >= f.Allocated/4 {
			return s, true
		}
	}
	return Size{}, false
}

func parenthesis(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// own is what this process holds beside stalloc, the CUDA context for example, if NVML says
// how much it holds in all.
func (f *Figures) own() (mem.Bytes, bool) {
	for _, h := range f.Holders {
		if h.Self && h.Used >= f.Reserved {
			return h.Used - f.Reserved, true
		}
	}
	return 0, false
}
