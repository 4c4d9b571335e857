package pool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
)

// Memory sleeps pool by pool: the default pool, and regions. Its handles, views and blocks stay in
// the engine as they are; only the device knows that nothing is behind them (package sleeper). So
// there is nothing to learn anew after it, and no gap is where there was none before. Pools of
// graphs stay awake: nobody can say when a graph is launched.

// ErrAsleep is the answer to a request of memory that sleeps.
var ErrAsleep = errors.New("this memory sleeps: resume it first")

// sleeping is what is known of memory that sleeps.
type sleeping struct {
	asleep    map[uint64]*backup // by the pools that sleep
	unpinning sync.WaitGroup     // goroutines that unpin and free backups after Resume
	pinnedMu  sync.Mutex
	pinned    []*backup // given up, and not unpinned yet

	warnUnpinned sync.Once // that the host's memory cannot be pinned
}

// sleeps reports whether a pool sleeps.
func (p *Pool) sleeps(pool uint64) bool {
	_, is := p.asleep[pool]
	return is
}

// handlesOf returns the handles of pools.
func (p *Pool) handlesOf(is func(pool uint64) bool) (handles []driver.Handle) {
	for _, i := range p.policy.HandlesOf(is) {
		if h := p.handles[i]; h != 0 {
			handles = append(handles, h)
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
		pools = append(allRegions(), 0)
	}
	if err := p.sync(); err != nil {
		return err
	}
	p.Poll()
	if err := p.allAway(pools); err != nil {
		return err
	}
	start, fresh := time.Now(), map[uint64]*backup{}
	for _, pool := range pools {
		if !p.sleeps(pool) {
			fresh[pool] = &backup{}
		}
	}
	if keep {
		if err := p.save(fresh); err != nil {
			return err
		}
	}
	meant := func(pool uint64) bool { return slices.Contains(pools, pool) }
	p.dropSpare()
	asleep, err := p.dev.Sleep(p.handlesOf(meant))
	if !asleep {
		return errors.Join(err, p.drop(fresh))
	}
	maps.Copy(p.asleep, fresh)
	p.applyLimit()
	p.Log.Info("memory sleeps",
		zap.Stringer("asleep", p.dev.Asleep()), zap.Stringer("backup", p.kept()),
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
	start, woken := time.Now(), map[uint64]*backup{}
	for pool, x := range p.asleep {
		if len(pools) == 0 || slices.Contains(pools, pool) {
			woken[pool] = x
		}
	}
	if len(woken) == 0 { // of a closed device, what could not be unpinned has no other chance
		if err := p.unpin(); err != nil {
			p.Log.Warn("memory of the host was not given back", zap.Error(err))
		}
		return nil
	}
	if p.Host.Captures() > 0 { // copies wait for streams that may be captured
		return errCapturing
	}
	handles, err := p.wake(woken)
	if err != nil {
		return fmt.Errorf("it sleeps on: %w", err)
	}
	if err := p.restore(woken); err != nil {
		_, again := p.dev.Sleep(handles)
		return fmt.Errorf("it sleeps on: %w", errors.Join(err, again))
	}
	for pool := range woken {
		delete(p.asleep, pool)
	}
	p.applyLimit()
	p.Log.Info("memory is awake",
		zap.Stringer("still asleep", p.dev.Asleep()), zap.Duration("took", time.Since(start)))
	p.unpinning.Go(func() { // unpinning takes as long as copying
		if err := p.drop(woken); err != nil {
			p.Log.Warn("memory of the host was not given back", zap.Error(err))
		}
	})
	return nil
}

// wake makes memory for pools that sleep, and returns their handles. Where the limit or the driver
// leaves too little, idle memory is given back first, as for a request.
func (p *Pool) wake(pools map[uint64]*backup) (handles []driver.Handle, err error) {
	try := func() error {
		handles = p.handlesOf(func(pool uint64) bool {
			return pools[pool] != nil && !p.isClosed(pool)
		})
		_, asleep := p.dev.Size(handles)
		if limit := p.mayHold(); limit > 0 && p.reserved()+asleep > limit {
			return &RefusedError{Reason: engine.RefusedLimit, Limit: p.limit}
		}
		return p.dev.Wake(handles)
	}
	p.dropSpare()
	held := p.policy.Reserved() // what is idle and sleeps need not wake
	if err = try(); !errors.Is(err, driver.ErrOutOfMemory) {
		return handles, err
	}
	_, failed := p.run(engine.Event{Kind: engine.EvTrim, Rollback: true})
	if failed = errors.Join(failed, p.trimRegions()); p.policy.Reserved() == held {
		return nil, errors.Join(err, failed)
	}
	err = try()
	return handles, err
}
