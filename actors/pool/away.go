package pool

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"stalloc/actors/device/away"
	"stalloc/internal/mem"
	"stalloc/plan/residency"
)

// A region that the program does not use, as it says, is closed: as much of it as other requests
// need goes to the host, and comes back before its next use (package away). How much they needed in
// one step leaves early in the next ones, so that no request waits for it: it is due with the next
// large request. Until then the program may read its losses, which would wait for these copies.
// Closed regions share the need: the one that was closed last leaves first, for in a program that
// uses them in turn it is the one that is used again last.

// moving is the state of regions that were closed at least once.
type moving struct {
	link     *away.Link
	moved    map[uint64]*moved
	full     mem.Bytes       // what was held when the driver refused more, 0: it never has
	left     time.Duration   // when something has left, or began to
	warned   map[string]bool // what warnOnce has logged
	closings uint64
	roomAt   uint64 // how many closings there were when anything last waited for room
}

// moved is a region, and how much of it has to leave.
type moved struct {
	*away.Region
	pool   uint64    // its number
	uses   int       // begun and not ended
	wanted mem.Bytes // the most that was held or away since it was closed
	before mem.Bytes // the same for the time before
	need   residency.Need
	closed uint64 // the number of its last closing
	due    bool   // what was short then leaves with the next large request
}

// ErrNotOpen is the answer to a request of a region that is not in use.
var ErrNotOpen = errors.New("this region is not in use: open it first (awake)")

var errOpenWhileCapturing = errors.New("its contents are on the host, and a CUDA graph is being " +
	"captured, or may be; open the region before the capture")

// errArriving is the answer where a replay, on whatever stream, could come before the copies.
var errArriving = errors.New("it is being copied back, or earlier work still uses it, and a CUDA graph " +
	"is being captured, or may be; wait for the device (torch.cuda.synchronize) before the capture")

// BeginAwake opens a region for work on a stream: see actors.Device.BeginAwake.
func (p *Pool) BeginAwake(region uint64, stream mem.StreamID) error {
	if p.sleeps(region) {
		return ErrAsleep
	}
	if !p.policy.Indexed() {
		return nil
	}
	m, err := p.movedOf(region)
	if err != nil {
		return err
	}
	if !m.IsOpen() {
		p.refresh(m)
	}
	if p.Host.Captures() > 0 {
		if m.Away > 0 {
			return errOpenWhileCapturing
		}
		if _, err := p.arrived(m); err != nil {
			return err
		}
		if m.IsOpen() {
			m.uses++
			return nil
		}
	}
	if !m.IsOpen() {
		start, out := time.Now(), m.Away
		m.need.Note(m.wanted, p.MostHeld(), p.mostShort(m))
		if out > 0 {
			if err := p.fetch(m, out, out, true); err != nil {
				return fmt.Errorf("it stays on the host: %w", err)
			}
		}
		defer func() { p.traced(start, "region: opened", "bytes", int64(out)) }()
	}
	if err := m.Open(stream); err != nil {
		return err
	}
	m.uses++
	m.due = false
	return nil
}

// mostShort returns the most that can have been short since a region was closed. If nothing waited
// for room, what left was enough, for the uses of whichever region it left. Idle memory that took
// the margin does not count then, or the need would grow with each use.
func (p *Pool) mostShort(m *moved) (most mem.Bytes) {
	if p.roomAt >= m.closed || p.reserved() > p.MostHeld() { // the limit was lowered
		return math.MaxInt64
	}
	for _, x := range p.moved {
		most = max(most, x.need.Most())
	}
	return most
}

// arrived reports whether the copies back have passed, and fails where they have not and a stream
// that may be captured would have to wait.
func (p *Pool) arrived(m *moved) (bool, error) {
	arrived, err := m.Arrived()
	if !arrived && p.Host.Captures() > 0 {
		return false, errors.Join(err, errArriving)
	}
	return arrived, nil
}

// behindCopies makes a stream wait for a region's copies back before it gets a new block there:
// the copies write whole handles, free bytes too.
func (p *Pool) behindCopies(region uint64, stream mem.StreamID) error {
	m := p.moved[region]
	if m == nil {
		return nil
	}
	if arrived, err := p.arrived(m); arrived || err != nil {
		return err
	}
	return m.Follow(stream)
}

// movedOf returns the state of a region. A new one is open.
func (p *Pool) movedOf(region uint64) (*moved, error) {
	if m := p.moved[region]; m != nil {
		return m, nil
	}
	r, err := away.New(p.link)
	if err != nil {
		return nil, err
	}
	m := &moved{Region: r, pool: region}
	p.moved[region] = m
	return m, nil
}

// refresh tells a region which handles it has: idle ones may have been released.
func (p *Pool) refresh(m *moved) {
	m.Refresh(p.handlesOf(func(pool uint64) bool { return pool == m.pool }))
}

// out returns how much of all regions but one is away, and how much is leaving.
func (p *Pool) out(except *moved) (away, leaving mem.Bytes) {
	for _, m := range p.moved {
		if m != except {
			away, leaving = away+m.Away, leaving+m.Leaving
		}
	}
	return away, leaving
}

// lending yields the closed regions but one. Those that sleep are left out: they have nothing.
func (p *Pool) lending(except *moved) iter.Seq[*moved] {
	return func(yield func(*moved) bool) {
		for _, m := range p.moved {
			if m != except && !m.IsOpen() && !p.sleeps(m.pool) && !yield(m) {
				return
			}
		}
	}
}

// Closing says how a region is closed.
type Closing struct {
	Changed bool // its contents may differ from their copy on the host
	All     bool // all of it leaves, however much others need
	More    bool // other regions are closed next, one after the other
}

// EndAwake closes a region: see actors.Device.EndAwake.
func (p *Pool) EndAwake(region uint64, stream mem.StreamID, how Closing) error {
	if !p.policy.Indexed() { // GMLake maps handles at many places
		p.warnOnce("regions lend nothing with pool:gmlake", nil)
		return nil
	}
	m, err := p.movedOf(region)
	if err != nil {
		return err
	}
	if m.uses > 1 || p.Host.Captures() > 0 || p.sleeps(region) { // it stays as it is
		m.Changed(how.Changed)
		m.uses = max(m.uses-1, 0)
		if p.sleeps(region) {
			return ErrAsleep
		}
		return nil
	}
	start := time.Now()
	if err := m.Close(stream, how.Changed); err != nil {
		m.uses = 0 // who does not try again would keep it in use for ever
		return err
	}
	p.refresh(m)
	p.closings++
	m.uses, m.before, m.wanted, m.closed = 0, m.wanted, 0, p.closings
	p.noteWanted()
	var sent mem.Bytes
	switch {
	case how.All:
		sent = p.send(m, m.All)
	case how.More:
		sent = p.leave(p.leaves(m, true), true, nil)
	default:
		m.due = p.leaves(m, false) > 0
	}
	p.traced(start, "region: closed", "bytes", int64(sent))
	return nil
}

// allAway moves closed regions out completely before a pause that keeps contents, and waits for it.
// Then they sleep already, and their contents are where those of closed regions are.
func (p *Pool) allAway(pools []uint64, keep bool) error {
	for _, pool := range pools {
		if !p.isClosed(pool) {
			continue
		}
		m := p.moved[pool]
		p.refresh(m)
		if !keep {
			continue
		}
		_, err := m.Send(m.All, nil) // the device was waited for
		p.awaitOut(nil, math.MaxInt64, math.MaxInt64)
		if stays := m.All - m.Away; stays > 0 {
			return errors.Join(fmt.Errorf("%v of a region cannot be copied to the host; free memory "+
				"there, or pause it with backup discard", stays), err)
		}
	}
	return nil
}

// isClosed reports whether a pool is a region that is not in use.
func (p *Pool) isClosed(pool uint64) bool { return p.moved[pool] != nil && !p.moved[pool].IsOpen() }
