package actors

import (
	"errors"

	"stalloc/internal/mem"
)

func (d *Device) rare(m *poolRequest) error {
	d.ask(d.pool, m)
	return m.err
}

// Find returns the start and size of the block that contains addr.
func (d *Device) Find(addr mem.Addr) (mem.Addr, mem.Bytes, error) {
	m := &poolRequest{verb: verbFind, addr: addr}
	d.ask(d.pool, m)
	return m.addr, m.size, m.err
}

// Trim gives idle handles back to the driver; with a private pool's number, what
// that pool no longer uses.
func (d *Device) Trim(pool uint64) error { return d.rare(&poolRequest{verb: verbTrim, pool: pool}) }

var errNoSuchLimit = errors.New("a memory fraction lies between 0 and 1")

// Limit bounds the physical memory taken to a fraction of the device's.
func (d *Device) Limit(fraction float64) error {
	if !(fraction > 0 && fraction <= 1) {
		return errNoSuchLimit
	}
	_, total, err := d.dev.Memory()
	if err != nil {
		return err
	}
	limit := mem.Bytes(0)
	if fraction < 1 {
		limit = max(mem.Bytes(fraction*float64(total)), 1) // 0: no limit
	}
	return d.rare(&poolRequest{verb: verbLimit, limit: limit})
}

// Share lets another device of the process, by its ordinal, use all memory of this
// one, what is in use now included: copies from one to the other, and kernels that
// read across. On an error nothing changes for the program but that they fail.
func (d *Device) Share(peer int) error { return d.rare(&poolRequest{verb: verbShare, peer: peer}) }

// ResetPeak lets PeakReserved start over from what is reserved now.
func (d *Device) ResetPeak() error { return d.rare(&poolRequest{verb: verbResetPeak}) }

// Check recounts the engine's state.
func (d *Device) Check() error { return d.rare(&poolRequest{verb: verbCheck}) }
