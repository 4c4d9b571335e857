package pool

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device/backup"
	"stalloc/actors/region"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory sleeps pool by pool: the default pool, and regions. Its handles, views and blocks stay in
// the engine as they are; only the device knows that nothing is behind them (package sleeper). So
// plans hold and gaps are the same after waking. Pools of graphs stay awake: stalloc cannot see
// when a graph is launched.

// ErrAsleep is the answer to a request of memory that sleeps.
var ErrAsleep = errors.New("this memory sleeps: resume it first")

// sleeping is what is known of memory that sleeps.
type sleeping struct {
	asleep  map[uint64]*backup.Copy // by the pools that sleep
	backups *backup.Store
}

func (p *Pool) sleeps(pool uint64) bool {
	_, is := p.asleep[pool]
	return is
}

// Sleeps reports whether some, and whether all, of these private pools of regions sleep; with none
// named, of the default pool and all regions that may have memory.
func (p *Pool) Sleeps(pools []uint64) (some, all bool) {
	if len(pools) == 0 {
		pools = append(slices.Collect(maps.Keys(p.asleep)), 0)
		for n := range p.policy.Regions() {
			if n >= engine.FirstRegion {
				pools = append(pools, n)
			}
		}
	}
	some = slices.ContainsFunc(pools, p.sleeps)
	all = !slices.ContainsFunc(pools, func(pool uint64) bool { return !p.sleeps(pool) })
	return some, all
}

// AwaitUnpinned waits until host memory that Resume does not keep is given back, as far as it can.
func (p *Pool) AwaitUnpinned() { p.backups.Await() }

func (p *Pool) handlesOf(is func(pool uint64) bool) (handles []driver.Handle) {
	for _, i := range p.policy.HandlesOf(is) {
		if h := p.handles[i]; h != 0 {
			handles = append(handles, h)
			p.dev.Home(h, p.policy.PlaceOf(i))
		}
	}
	return handles
}

// Pause puts pools to sleep, or with none named the default pool and all regions: see
// actors.Device.Pause.
func (p *Pool) Pause(pools []uint64, keep bool) error {
	if p.state == retired {
		return ErrRetired
	}
	if len(pools) == 0 {
		pools = append(region.All(), 0)
	}
	if err := p.sync(); err != nil {
		return err
	}
	p.Poll()
	if err := p.allAway(pools, keep); err != nil {
		return err
	}
	start, fresh := time.Now(), map[uint64]*backup.Copy{}
	for _, pool := range pools {
		if !p.sleeps(pool) {
			fresh[pool] = &backup.Copy{}
		}
	}
	if keep {
		for b := range p.policy.Blocks() {
			_, shared := p.exported[b.Addr] // which stays awake
			if x := fresh[b.Pool]; x != nil && !shared && !p.isClosed(b.Pool) {
				x.Add(b)
			}
		}
		if err := p.backups.Save(fresh); err != nil {
			return err
		}
	}
	meant := func(pool uint64) bool { return slices.Contains(pools, pool) }
	p.dropSpare()
	asleep, err := p.dev.Sleep(p.handlesOf(meant))
	if !asleep {
		return errors.Join(err, p.backups.Drop(fresh))
	}
	for _, pool := range pools {
		if p.isClosed(pool) {
			p.moved[pool].Sleeps()
		}
	}
	maps.Copy(p.asleep, fresh)
	p.applyLimit()
	p.Log.Info("memory sleeps",
		zap.Stringer("asleep", p.dev.Asleep()), zap.Stringer("backup", p.backup()),
		zap.Stringer("still held", p.reserved()), zap.String("of it",
			p.Awake()), zap.Duration("took", time.Since(start)))
	if err != nil {
		const text = "it sleeps, but the driver has not taken all memory back; pause it again: %w"
		return fmt.Errorf(text, err)
	}
	return nil
}

// Resume wakes pools: see actors.Device.Resume.
func (p *Pool) Resume(pools []uint64) error {
	start, woken := time.Now(), map[uint64]*backup.Copy{}
	for pool, x := range p.asleep {
		if len(pools) == 0 || slices.Contains(pools, pool) {
			woken[pool] = x
		}
	}
	if len(woken) == 0 { // of a closed device, what could not be unpinned has no other chance
		if err := p.backups.Give(); err != nil {
			p.Log.Warn("memory of the host was not given back", zap.Error(err))
		}
		return nil
	}
	if p.Host.Captures() > 0 { // copies wait for streams that may be captured
		return errCapturing
	}
	if err := p.wake(woken); err != nil {
		return fmt.Errorf("it stays asleep, and can be resumed again: %w", err)
	}
	for pool := range woken {
		delete(p.asleep, pool)
	}
	p.applyLimit()
	p.Log.Info("memory is awake",
		zap.Stringer("still asleep", p.dev.Asleep()), zap.Duration("took", time.Since(start)))
	p.backups.KeepBeside(woken)
	return nil
}

// wake makes memory for pools that sleep, and copies back what is kept of them. Where the limit or
// the driver leaves too little, idle memory is given back first, as for a request, and closed
// regions make room.
func (p *Pool) wake(pools map[uint64]*backup.Copy) (err error) {
	need := mem.Bytes(0)
	try := func() error {
		handles := p.handlesOf(func(pool uint64) bool {
			return pools[pool] != nil && !p.isClosed(pool)
		})
		_, need = p.dev.Size(handles)
		if limit := p.mayHold(); need > 0 && limit > 0 && p.reserved()+need > limit {
			need += p.reserved() - limit
			return &engine.RefusedError{Reason: engine.RefusedLimit, Limit: p.limit}
		}
		return p.refill(handles, pools)
	}
	p.dropSpare()
	if err = try(); !errors.Is(err, driver.ErrOutOfMemory) {
		return err
	}
	_, failed := p.run(engine.Event{Kind: engine.EvTrim, Rollback: true})
	failed = errors.Join(failed, p.trimRegions())
	p.Settle()
	for err = try(); errors.Is(err, driver.ErrOutOfMemory) && p.makeRoom(need, nil); {
		p.lend(need, 0) // what has risen
		p.dropSpare()
		err = try()
	}
	if err != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// Memory wakes in at most mostParts parts, which have at least atOnce on average: handles differ.
const atOnce, mostParts = 128 * mem.MiB, 16

// refill wakes handles and copies back what is kept of blocks that still live: to one part while
// the driver makes memory for the next. If anything fails, all that it woke sleeps again.
func (p *Pool) refill(handles []driver.Handle, pools map[uint64]*backup.Copy) (err error) {
	back := p.backups.Restore(pools, func(pool uint64, b engine.Block) bool {
		now, live := p.policy.Lookup(b.Addr)
		return live && !now.Pending && now.Pool == pool
	})
	asleep := slices.DeleteFunc(slices.Clone(handles), func(h driver.Handle) bool {
		_, sleeps := p.dev.Size([]driver.Handle{h})
		return sleeps == 0
	})
	at, copied := p.dev.Places(handles), func() error { return nil }
	size, _ := p.dev.Size(handles)
	parts := max(1, min(int(size/atOnce), mostParts, len(at)))
	for i := 1; err == nil && i <= parts; i++ {
		end := mem.Addr(math.MaxUint64)
		if i < parts {
			end = at[i*len(at)/parts]
		}
		if err = errors.Join(p.dev.WakeBefore(end, handles), copied()); err == nil {
			copied = back.Begin(end)
		}
	}
	if err == nil {
		err = copied()
	}
	if err != nil {
		_, again := p.dev.Sleep(asleep)
		err = errors.Join(err, again)
	}
	return err
}
