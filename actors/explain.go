package actors

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/pool"
	"stalloc/engine"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/internal/without"
)

// Explain says where the device's memory is, as a table.
func (d *Device) Explain() string {
	f := d.figures()
	if f.LateFences > 0 {
		f.Note += fmt.Sprintf(" The driver records no event on a stream that freed memory waits for (is it being captured, or destroyed?): %d are late.", f.LateFences)
	}
	if n := d.Stats().Asleep; n > 0 {
		f.Note += fmt.Sprintf(" %v sleeps and is not held; blocks in it live on.", n)
	}
	_ = d.onPool(func(p *pool.Pool) error { // nothing is added where the engine is broken
		if awake := p.Awake(); awake != "" {
			f.Note += " Awake when the rest sleeps: " + awake + "."
		}
		return nil
	}, nil)
	return f.Table()
}

func (d *Device) figures() explain.Figures {
	s := d.Stats()
	f := explain.Figures{
		Device: d.dev.Name(), Reserved: s.Reserved, PeakReserved: s.PeakReserved, Allocated: s.Load,
		Pending: s.Pending, Limit: s.Limit,
		LateFences: s.Late, LargestGap: s.LargestFree, NoStitching: d.opts.GMLake == nil &&
			d.opts.Range.Without.Has(without.Stitch),
	}
	d.addUsage(&f)
	free, total, err := d.dev.Memory()
	if err != nil {
		f.Note = fmt.Sprintf("The device's own figures cannot be had: %v.", err)
	} else {
		f.Free, f.Total = free, total
	}
	if said := d.tooLarge.Load(); said != nil {
		f.Note += *said
	}
	if d.opts.Holders != nil {
		if f.Holders, err = d.holders(); err != nil {
			f.HoldersError = err.Error()
		}
	}
	return f
}

// addUsage adds what the engine knows of single blocks; nothing where it is broken.
func (d *Device) addUsage(f *explain.Figures) {
	var usage engine.Usage
	if d.onPool(func(p *pool.Pool) error {
		usage = p.Usage()
		return nil
	}, nil) != nil {
		return
	}
	f.Whole, f.Private = usage.Whole, usage.Private
	sizes, phases := map[mem.Bytes]int{}, [5]explain.Phase{}
	for use, blocks := range usage.Live {
		f.Blocks += blocks
		sizes[use.Size] += blocks
		at, name := phase(int(use.Step), int(usage.Steps))
		x := &phases[at]
		x.Name, x.Between = name, at == between
		x.Blocks, x.Bytes = x.Blocks+blocks, x.Bytes+use.Size*mem.Bytes(blocks)
	}
	for size, blocks := range sizes {
		f.Sizes = append(f.Sizes, explain.Size{Size: size, Blocks: blocks})
	}
	slices.SortFunc(f.Sizes, func(a, b explain.Size) int {
		return cmp.Or(cmp.Compare(b.Sum(), a.Sum()), cmp.Compare(b.Size, a.Size))
	})
	for _, x := range phases {
		if x.Blocks > 0 {
			f.Phases = append(f.Phases, x)
		}
	}
}

// between is the place of those phases in which a steady program allocates nothing that stays.
const between = 2

// phase says in which steps a block was allocated, when so many had ended, and where that
// stands among the others.
func phase(step, ended int) (int, string) {
	switch {
	case step == ended && step == 0:
		return 4, "set-up and step 1, not yet over"
	case step == ended:
		return 4, fmt.Sprintf("step %d, not yet over", step+1)
	case step == 0:
		return 0, "set-up and step 1"
	case step == 1:
		return 1, "step 2"
	case step == ended-1:
		return 3, fmt.Sprintf("step %d", step+1)
	case ended == 4:
		return between, "step 3"
	}
	return between, fmt.Sprintf("steps 3 to %d", ended-1)
}

// logHolders tells what the device's memory is used for at the start.
func (d *Device) logHolders() {
	holders, err := d.holders()
	free, total, unknown := d.dev.Memory()
	d.log.Info("memory of the device at the start", zap.Stringer("free", free),
		zap.Stringer("of", total),
		zap.Any("held by", holders), zap.Error(errors.Join(err, unknown)))
}

// holders asks who holds memory. What it asks is foreign code, and a training job must not
// end for an explanation.
func (d *Device) holders() (holders []explain.Holder, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("asking for them failed: %v", r)
		}
	}()
	return d.opts.Holders()
}

// explainedError is a refusal with all that is known.
type explainedError struct {
	error
	text string
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.error }

// explained says why a request was refused, and leaves a report if one is wanted.
func (d *Device) explained(err error, id mem.StreamID, asked mem.Bytes) error {
	f := d.figures()
	f.Asked, f.Stream = asked, id
	var r *engine.RefusedError
	if errors.As(err, &r) {
		f.Why, f.Code, f.Limit = r.Why(), r.Code, max(f.Limit, r.Limit)
	}
	text := f.Refusal()
	if d.opts.Report != "" {
		path := explain.ReportPath(d.opts.Report, os.Getenv("RANK"), os.Getpid(), d.opts.Ordinal)
		head := fmt.Sprintf("stalloc, process %d, %s", os.Getpid(), time.Now().Format(time.RFC3339))
		write := func(w io.Writer) error { _, err := w.Write(f.Report(head)); return err }
		if err := output.Write(path, 0o600, write); err != nil {
			d.log.Warn("the report of an out of memory is not written", zap.Error(err))
		} else {
			text += "\nThe report is in " + path + ".\n"
		}
	}
	d.opts.Trace.Mark(time.Now(), d.opts.Ordinal, "out of memory: "+f.Reason(), nil)
	return &explainedError{err, text}
}
