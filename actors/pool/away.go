package pool

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"stalloc/actors/device/away"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// A region that the program says it does not use is closed: as much of it as others are short of
// goes to the host, and comes back before its next use (package away). What was short in one step
// leaves at once in the next ones, so that nobody waits for it.

// moving is what is known of regions that were closed.
type moving struct {
	link     *away.Link // nil: none was
	moved    map[uint64]*moved
	full     mem.Bytes       // what was held when the driver refused more, 0: it never has
	warnAway map[string]bool // what was said
}

// moved is a region, and how much of it has to leave.
type moved struct {
	*away.Region
	uses   int          // that have begun and not ended
	others mem.Bytes    // the most that all but closed regions have held since it was closed
	before mem.Bytes    // and the time before
	lately [4]mem.Bytes // what had to be away in the last times, the latest first
}

// ErrNotOpen is the answer to a request of a region that is not in use.
var ErrNotOpen = errors.New("this region is not in use: open it first (awake)")

var errOpenWhileCapturing = errors.New("a private pool is being allocated to, and a stream may be " +
	"captured into a graph; open the region outside of it")

// BeginAwake opens a region for work on a stream: see actors.Device.BeginAwake.
func (p *Pool) BeginAwake(region uint64, stream mem.StreamID) error {
	if p.sleeps(region) {
		return ErrAsleep
	}
	if !p.policy.Indexed() {
		return nil
	}
	m, err := p.movedOf(region)
	start := time.Now()
	switch capturing := p.Host.Captures() > 0; {
	case err != nil:
		return err
	case capturing && !m.IsOpen():
		return errOpenWhileCapturing
	case capturing: // the stream cannot wait for what is not captured, and need not
		m.uses++
		return nil
	case !m.IsOpen():
		p.refresh(region, m)
		p.learn(m)
		_, out, _ := m.Size()
		if out > 0 {
			if err := p.fetch(m, out, out, true); err != nil {
				return fmt.Errorf("it stays away: %w", err)
			}
		}
		defer func() { p.spanned(start, "region: opened", out) }()
	}
	if err := m.Open(stream); err != nil {
		return err
	}
	m.uses++
	return nil
}

// movedOf returns what is known of a region, which is open the first time.
func (p *Pool) movedOf(region uint64) (*moved, error) {
	if m := p.moved[region]; m != nil {
		return m, nil
	}
	if p.link == nil {
		link, err := away.NewLink(p.dev)
		if err != nil {
			return nil, err
		}
		p.link = link
	}
	m := &moved{Region: away.New(p.link)}
	p.moved[region] = m
	return m, nil
}

// learn notes how much of a region had to be away since it was closed: by how much it and all else
// exceed what may be held.
func (p *Pool) learn(m *moved) {
	all, _, _ := m.Size()
	n := mem.Bytes(0)
	if most := p.MostHeld(); most > 0 {
		n = min(max(m.others+all-most, 0), all)
	}
	copy(m.lately[1:], m.lately[:])
	m.lately[0] = n
}

// MostHeld returns how much may be held of the driver, as far as that is known, 0: it is not. Where
// the driver has refused more that is what was held then, or since.
func (p *Pool) MostHeld() mem.Bytes {
	limit := p.mayHold()
	if full := max(p.full, p.reserved()); p.full > 0 && (limit == 0 || full < limit) {
		return full
	}
	return limit
}

// EndAwake closes a region: see actors.Device.EndAwake.
func (p *Pool) EndAwake(region uint64, stream mem.StreamID, changed, always bool) error {
	if p.sleeps(region) {
		return ErrAsleep
	}
	if !p.policy.Indexed() { // GMLake maps handles at many places
		p.sayAway("regions lend nothing with pool:gmlake", nil)
		return nil
	}
	m, err := p.movedOf(region)
	if err != nil {
		return err
	}
	if m.uses > 1 || p.Host.Captures() > 0 { // it stays open
		m.Changed(changed)
		m.uses = max(m.uses-1, 0)
		return nil
	}
	start := time.Now()
	handles := p.handlesOf(func(pool uint64) bool { return pool == region })
	if err := m.Close(stream, handles, changed); err != nil {
		return err
	}
	m.uses, m.before, m.others = 0, m.others, 0
	p.noteOthers()
	n, _, _ := m.Size()
	if !always {
		n = slices.Max(m.lately[:])
		n += n / needMargin
	}
	p.send(m, n)
	p.spanned(start, "region: closed", n)
	return nil
}

// needMargin is the part by which more leaves than was needed lately.
const needMargin = 16

// Prefetch brings back what fits of a region, at most so much: see actors.Device.Prefetch.
func (p *Pool) Prefetch(region uint64, most mem.Bytes) error {
	m := p.moved[region]
	if !p.isClosed(region) || p.sleeps(region) || p.Host.Captures() > 0 {
		return nil
	}
	p.refresh(region, m)
	_, out, _ := m.Size()
	err := p.fetch(m, out, most, false)
	if errors.Is(err, driver.ErrOutOfMemory) {
		return nil // the rest comes with its use
	}
	return err
}

// mirrored returns what is kept on the host for regions that come and go.
func (p *Pool) mirrored() (n mem.Bytes) {
	for _, m := range p.moved {
		n += m.Mirror()
	}
	return n
}

// Away returns what a region has, how much of it is away, and the most that all but closed regions
// held while it was closed before; open: it is in use, or never was closed.
func (p *Pool) Away(region uint64) (all, out, others mem.Bytes, open bool) {
	m := p.moved[region]
	if m == nil {
		return 0, 0, 0, true
	}
	all, out, _ = m.Size()
	return all, out, m.before, m.IsOpen()
}

// allAway moves all of closed regions out that are to sleep, and waits for it. Those sleep already
// then, and their contents are where they are when a region is closed.
func (p *Pool) allAway(pools []uint64) error {
	for _, pool := range pools {
		m := p.moved[pool]
		if m == nil || m.IsOpen() {
			continue
		}
		p.refresh(pool, m)
		all, _, _ := m.Size()
		_, err := m.Send(all)
		p.awaitOut(m, math.MaxInt64)
		if all, out, _ := m.Size(); out < all {
			return errors.Join(fmt.Errorf("%v of a region cannot leave for the host", all-out), err)
		}
	}
	return nil
}

// forgetMoved gives up the mirrors of regions that have no memory any more.
func (p *Pool) forgetMoved() {
	for region, m := range p.moved {
		if _, has := p.regions[region]; has {
			continue
		}
		if err := m.Drop(); err != nil {
			p.sayAway("memory of the host was not given back", err)
		}
		delete(p.moved, region)
	}
}

// isClosed reports whether a pool is a region that is not in use.
func (p *Pool) isClosed(pool uint64) bool { return p.moved[pool] != nil && !p.moved[pool].IsOpen() }

// dropAway gives up what regions have on the host.
func (p *Pool) dropAway() error {
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
		p.link = nil
	}
	for _, m := range p.moved {
		errs = append(errs, m.Drop())
	}
	clear(p.moved)
	return errors.Join(errs...)
}
