package pool

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// What closed regions have on the device serves a request for which no memory can be made: they
// move it out, and the request waits for the copy.

// Settle puts to sleep what has been copied, and reports whether more is under way.
func (p *Pool) Settle() (leaving bool) {
	slept, start := mem.Bytes(0), time.Now()
	for region, m := range p.moved {
		if p.sleeps(region) || !m.Leaving() {
			continue
		}
		p.refresh(region, m)
		n, err := p.settle(m)
		if slept += n; err != nil {
			p.sayAway("memory of a region has not left", err)
		}
		leaving = leaving || m.Leaving()
	}
	if slept > 0 {
		p.time += time.Since(start)
		p.applyLimit()
		p.spanned(start, "region: left", slept)
	}
	return leaving
}

// settle puts to sleep what of a region has been copied. Others are to have its memory.
func (p *Pool) settle(m *moved) (slept mem.Bytes, err error) {
	p.dev.Keep(true)
	p.aside(func() { slept, err = m.Settle() })
	p.dev.Keep(false)
	p.rise()
	return slept, err
}

// makeRoom has closed regions but one give up so much, and waits for it. It returns false if they
// have nothing.
func (p *Pool) makeRoom(n mem.Bytes, but *moved) bool {
	if p.Host.Captures() > 0 {
		return false
	}
	lack, gone := mem.RoundUp(n, mem.HandleSize), mem.Bytes(0)
	p.Log.Debug("regions make room", zap.Stringer("bytes", lack))
	for region, m := range p.moved {
		if m == but || m.IsOpen() || p.sleeps(region) || lack <= gone {
			continue
		}
		p.refresh(region, m)
		if _, _, leaving := m.Size(); lack-gone > leaving {
			p.send(m, lack-gone-leaving)
		}
		gone += p.awaitOut(m, lack-gone)
	}
	return gone > 0
}

// awaitOut waits until so much sleeps, or nothing of the region is under way, and returns how much
// went to sleep.
func (p *Pool) awaitOut(m *moved, most mem.Bytes) (gone mem.Bytes) {
	for m.Leaving() && gone < most {
		slept, err := p.settle(m)
		if err != nil {
			p.sayAway("memory of a region has not left", err)
		}
		gone += slept
		if p.applyLimit(); slept == 0 && err == nil {
			p.aside(func() { p.Clock.Sleep(copyWait) })
		}
	}
	return gone
}

// copyWait is how long a thread sleeps between two looks at a copy that it waits for.
const copyWait = 50 * time.Microsecond

// noteOthers notes what all but closed regions hold.
func (p *Pool) noteOthers() {
	if len(p.moved) == 0 {
		return
	}
	others := p.reserved()
	for _, m := range p.moved {
		if all, out, _ := m.Size(); !m.IsOpen() {
			others -= all - out
		}
	}
	for _, m := range p.moved {
		m.others = max(m.others, others)
	}
}

// meansRoom has the policy refuse what it cannot make memory for, while closed regions have some
// on the device: to wait for the device and to give idle memory back takes longer.
func (p *Pool) meansRoom() engine.Means {
	for region, m := range p.moved {
		all, out, _ := m.Size()
		if p.isClosed(region) && !p.sleeps(region) && out < all && p.Host.Captures() == 0 {
			return engine.MeansRoom
		}
	}
	return 0
}

// afterRoom has closed regions make room for a request that was refused, so that it is tried again;
// the last time by all means.
func (p *Pool) afterRoom(ev *engine.Event, err error) bool {
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Reason == engine.RefusedDevice {
		p.full = p.reserved()
	}
	if ev.Means == 0 {
		return false
	}
	p.waited = true
	start := time.Now()
	defer func() { p.spanned(start, "region: a request waits", ev.Asked) }()
	if p.makeRoom(max(ev.Asked, leastRoom), nil) {
		ev.Means = p.meansRoom()
	} else {
		ev.Means = 0
	}
	return true
}

// leastRoom is what regions make room for at a time, so that few requests wait.
const leastRoom = 128 * mem.MiB

// refresh tells a region which handles it has: idle ones may have gone back to the driver.
func (p *Pool) refresh(region uint64, m *moved) {
	m.Refresh(p.handlesOf(func(pool uint64) bool { return pool == region }))
}

// send begins to move so much out.
func (p *Pool) send(m *moved, n mem.Bytes) {
	if _, err := m.Send(n); err != nil {
		p.sayAway("memory of a region cannot leave for the host, or not all that should", err)
	}
}

func (p *Pool) sayAway(text string, err error) {
	if !p.warnAway[text] {
		p.warnAway[text] = true
		p.Log.Warn(text, zap.Error(err))
	}
}
