package onerange

import (
	"fmt"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// trim asks to give so much back, 0: all. Unless the driver fails, less comes back only where there
// is no more.
func (d *device) trim(pool uint64, enough mem.Bytes) error {
	before := d.memory()
	err := d.step(engine.Event{Kind: engine.EvTrim, Pool: pool, Asked: enough})
	left := d.memory()
	if gave := before - left; err != nil || d.failing != nil || gave >= enough {
		return err
	}
	err = d.step(engine.Event{Kind: engine.EvTrim, Pool: pool})
	if err == nil && d.memory() < left {
		err = fmt.Errorf("a trim of %v gave %v back, and a trim of all then %v", enough,
			before-left, left-d.memory())
	}
	return err
}

// memory is what handles have that do not rest.
func (d *device) memory() (n mem.Bytes) {
	for i := range d.eng.handles {
		if h := &d.eng.handles[i]; !h.rests {
			n += bytesOf(h.size)
		}
	}
	return n
}

// TestEmptiedStepAfterStep: a stream that is kept, and holds nothing at the end of each step, is
// one thing to look at, however many steps there were.
func TestEmptiedStepAfterStep(t *testing.T) {
	d := newDevice(DefaultConfig())
	for req := range uint64(100) {
		err := d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: mem.MiB})
		if err == nil {
			err = d.free(req)
		}
		if err == nil {
			err = d.trim(0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.eng.Forget(func(mem.StreamID) bool { return true })
	}
	if n := len(d.eng.maybeEmpty); n > 1 {
		t.Errorf("%d streams are to be looked at, there is one", n)
	}
}
