package actors

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory sleeps pool by pool: the default pool, and regions. Its handles, views and blocks stay in
// the engine as they are; only the device knows that nothing is behind them (package sleeper). So
// there is nothing to learn anew after it, and no gap is where there was none before. Pools of
// graphs stay awake: nobody can say when a graph is launched.

// ErrAsleep is the answer to a request of memory that sleeps.
var ErrAsleep = errors.New("this memory sleeps: resume it first")

// errCannotSleep says that the policy does not know whose a handle is.
var errCannotSleep = errors.New("pool:gmlake has no memory that can sleep; leave that setting out")

// Pause has pools sleep, or with none named the default pool and all regions: when all work on the
// device is done their memory goes back to the driver, and every address stays. With keep the
// contents of live blocks are copied to the host, else they are lost. With an error nothing has
// changed, but for memory that the driver would not take back: then it sleeps all the same, and
// Pause tries that again.
func (d *Device) Pause(pools []uint64, keep bool) error {
	return d.rare(func(p *pool) error { return p.pause(pools, keep) }, nil)
}

// Resume wakes what Pause has sent to sleep, or with none named all of it: memory is made and
// mapped where it was, with its contents where they were kept. With an error, such as
// driver.ErrOutOfMemory, it sleeps on.
func (d *Device) Resume(pools []uint64) error {
	return d.rare(func(p *pool) error { return p.resume(pools) }, nil)
}

// reserved returns the memory that is held of the driver.
func (p *pool) reserved() mem.Bytes { return p.eng.Reserved() - p.dev.Asleep() }

// sleeps reports whether a pool sleeps.
func (p *pool) sleeps(pool uint64) bool {
	_, is := p.asleep[pool]
	return is
}

// handlesOf returns the handles of pools.
func (p *pool) handlesOf(is func(pool uint64) bool) (handles []driver.Handle) {
	for i, h := range p.handles {
		if h != 0 && is(p.ranged.PoolOf(engine.Index(i))) {
			handles = append(handles, h)
		}
	}
	return handles
}

func (p *pool) pause(pools []uint64, keep bool) error {
	switch {
	case p.ranged == nil:
		return errCannotSleep
	case p.retired:
		return ErrRetired
	}
	if len(pools) == 0 {
		pools = append(allRegions(), 0)
	}
	p.calls++
	if err := p.sync(); err != nil {
		return err
	}
	p.poll(math.MaxInt)
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
	asleep, err := p.dev.Sleep(p.handlesOf(meant))
	if !asleep {
		return errors.Join(err, p.drop(fresh))
	}
	maps.Copy(p.asleep, fresh)
	p.bound()
	p.log.Info("memory sleeps",
		zap.Stringer("asleep", p.dev.Asleep()), zap.Stringer("backup", p.kept()),
		zap.Stringer("still held", p.reserved()), zap.String("of it",
			p.awake()), zap.Duration("took", time.Since(start)))
	if err != nil {
		const text = "it sleeps, but the driver has not taken all memory back; pause it again: %w"
		return fmt.Errorf(text, err)
	}
	return nil
}

func (p *pool) resume(pools []uint64) error {
	start, woken := time.Now(), map[uint64]*backup{}
	for pool, x := range p.asleep {
		if len(pools) == 0 || slices.Contains(pools, pool) {
			woken[pool] = x
		}
	}
	if len(woken) == 0 {
		return nil
	}
	if p.host.Pools() > 0 { // copies wait for streams that may be captured
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
	p.bound()
	p.log.Info("memory is awake",
		zap.Stringer("still asleep", p.dev.Asleep()), zap.Duration("took", time.Since(start)))
	p.giving.Go(func() { // unpinning takes as long as copying
		if err := p.drop(woken); err != nil {
			p.log.Warn("memory of the host was not given back", zap.Error(err))
		}
	})
	return nil
}

// wake makes memory for pools that sleep, and returns their handles. Where the limit or the driver
// leaves too little, idle memory is given back first, as for a request.
func (p *pool) wake(pools map[uint64]*backup) (handles []driver.Handle, err error) {
	try := func() error {
		handles = p.handlesOf(func(pool uint64) bool { return pools[pool] != nil })
		_, asleep := p.dev.Size(handles)
		if limit := p.mayHold(); limit > 0 && p.reserved()+asleep > limit {
			return &RefusedError{Reason: engine.RefusedLimit, Limit: p.limit}
		}
		return p.dev.Wake(handles)
	}
	held := p.eng.Reserved()
	if err = try(); !errors.Is(err, driver.ErrOutOfMemory) {
		return handles, err
	}
	_, failed := p.run(engine.Event{Kind: engine.EvTrim, Vain: true})
	if failed = errors.Join(failed, p.trimRegions()); p.eng.Reserved() == held {
		return nil, errors.Join(err, failed)
	}
	err = try()
	return handles, err
}
