package actors

import (
	"fmt"
	"math"

	"stalloc/actors/device/sleeper"
	"stalloc/actors/pool"
	"stalloc/internal/mem"
)

// Trim gives idle handles back to the driver; with a private pool's number, what that pool no
// longer uses.
func (d *Device) Trim(private uint64) error {
	return d.onPool(func(p *pool.Pool) error { return p.Trim(private) }, nothing)
}

// Limit bounds the physical memory taken to a fraction of the device's; of 0 no more is.
func (d *Device) Limit(fraction float64) error {
	if !(fraction >= 0 && fraction <= 1) {
		return fmt.Errorf("%g is no fraction of a device's memory: expected one from 0 to 1",
			fraction)
	}
	_, total, err := d.dev.Memory()
	if err != nil {
		return err
	}
	limit := mem.Bytes(0)
	if fraction < 1 {
		limit = max(mem.Bytes(fraction*float64(total)), 1) // 0: no limit
	}
	return d.onPool(func(p *pool.Pool) error { p.SetLimit(limit); return nil }, nothing)
}

// Share lets another device of the process, by its ordinal, use all memory of this one, what is in
// use now included: copies from one to the other, and kernels that read across. On an error nothing
// changes for the program but that they fail.
func (d *Device) Share(peer int) error {
	return d.onPool(func(p *pool.Pool) error { return p.Share(peer) }, nil)
}

// Export lets other processes map the handles of the live block that contains addr, and tells where
// addr lies in them. Until the block is freed they do not sleep, and until its handles have gone
// back to the driver their file descriptors stay open. Who maps them has to see to it that the
// block lives as long.
func (d *Device) Export(addr mem.Addr) (offset mem.Bytes, handles []sleeper.Exported, err error) {
	err = d.onPool(func(p *pool.Pool) (err error) {
		offset, handles, err = p.Export(addr)
		return err
	}, nil)
	return offset, handles, err
}

// Import maps what Export of another process returned, and returns where: a range of this device
// alone, which lives as long as it is mapped, whatever becomes of the exporter.
func (d *Device) Import(handles []sleeper.Exported) (at mem.Addr, err error) {
	err = d.onPool(func(p *pool.Pool) (err error) {
		at, err = p.Import(handles)
		return err
	}, nil)
	return at, err
}

// EndImport unmaps what Import has mapped at an address.
func (d *Device) EndImport(at mem.Addr) error {
	end := func(p *pool.Pool) error { return p.EndImport(at) }
	return d.onPool(end, end)
}

// Pause puts pools to sleep, or with none named the default pool and all regions: when all work on
// the device is done their memory goes back to the driver, and every address stays. With keep the
// contents of live blocks are copied to the host, else they are lost. With an error nothing has
// changed, but for memory that the driver would not take back: then it sleeps all the same, and
// Pause tries that again.
func (d *Device) Pause(pools []uint64, keep bool) error {
	return d.onPool(func(p *pool.Pool) error { return p.Pause(pools, keep) }, nil)
}

// Resume wakes what Pause has put to sleep, or with none named all of it: memory is made and mapped
// where it was, with its contents where they were kept. With an error, such as
// driver.ErrOutOfMemory, it sleeps on.
func (d *Device) Resume(pools []uint64) error {
	return d.onPool(func(p *pool.Pool) error { return p.Resume(pools) }, nil)
}

// Sleeps reports whether some, and whether all, of these private pools of regions sleep; with none
// named of the default pool and all regions that may have memory.
func (d *Device) Sleeps(pools []uint64) (some, all bool) {
	_ = d.onPool(func(p *pool.Pool) error {
		some, all = p.Sleeps(pools)
		return nil
	}, nothing)
	return some, all
}

// BeginAwake says that work given to a stream from now on uses a region, and brings back what of it
// is away: the stream waits for the copies, the caller for memory alone. Streams of blocks that are
// allocated later wait by themselves. With an error, such as driver.ErrOutOfMemory, the region
// stays as it was. Uses nest: each needs an EndAwake.
func (d *Device) BeginAwake(region uint64, stream mem.StreamID) error {
	begin := func(p *pool.Pool) error {
		err := p.BeginAwake(region, stream)
		if err == nil {
			d.life.mover.Opened(region, p.Logged())
		}
		return err
	}
	return d.onPool(begin, begin) // a broken pool's regions come back, too
}

// EndAwake says that no work given to streams from now on uses a region until BeginAwake; work on
// stream was the last that did. The program must not touch its memory meanwhile: as much of it as
// others are short of lies on the host. changed: the work has changed its contents; else what the
// host has of them is still right. With an error it has ended, too, but can still be used.
func (d *Device) EndAwake(region uint64, stream mem.StreamID, how pool.Closing) error {
	return d.onPool(func(p *pool.Pool) error {
		logged := p.Logged()
		err := p.EndAwake(region, stream, how)
		if err == nil {
			d.life.mover.Closed(region, logged)
		}
		return err
	}, nothing)
}

// Prefetch begins to bring back what of a region is away, as far as there is room for it.
func (d *Device) Prefetch(region uint64) error {
	return d.onPool(func(p *pool.Pool) error { return p.Prefetch(region, math.MaxInt64) }, nothing)
}

// ResetPeak resets PeakReserved to what is reserved now.
func (d *Device) ResetPeak() error {
	return d.onPool(func(p *pool.Pool) error { p.ResetPeak(); return nil }, nothing)
}

// Check recounts the engine's state.
func (d *Device) Check() error { return d.onPool((*pool.Pool).Check, nil) }
