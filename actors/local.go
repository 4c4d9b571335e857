package actors

import (
	"fmt"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// Local is a device that serves Go callers: the same tapes and the same actors
// as under C, with the quick case run here.
type Local struct {
	*Device
	host *GoHost
}

// OpenLocal opens a device for Go callers.
func OpenLocal(dev device.Device, opts Options) (*Local, error) {
	host := NewGoHost()
	d, err := Open(dev, host, opts)
	if err != nil {
		return nil, err
	}
	return NewLocal(d, host), nil
}

// NewLocal serves Go callers from a device whose host's ports are those of a
// GoHost, as they are or with something around them.
func NewLocal(d *Device, host *GoHost) *Local { return &Local{d, host} }

// portOf returns the port of an arena's stream.
func (l *Local) portOf(a *arena) *GoPort {
	if p, ok := a.lane.port.(*GoPort); ok {
		return p
	}
	return l.host.Port(a.lane.port.ID())
}

// Malloc returns a block of at least size bytes for work on a stream. Size zero
// gives no block and no error.
func (l *Local) Malloc(id mem.StreamID, size mem.Bytes) (mem.Addr, error) {
	if size <= 0 {
		if size < 0 {
			return 0, fmt.Errorf("a block of %d bytes was asked for", size)
		}
		return 0, nil
	}
	if size > l.largest {
		return 0, l.tooLarge()
	}
	p := l.host.Port(id)
	p.Lock()
	tape := p.tape
	var got stream.Served
	if tape != nil && (!l.auto.marked.Load() && tape.BeginsAnew(size) || l.reached()) {
		p.Unlock()
		l.endFound()
		p.Lock()
		tape = p.tape
	}
	if tape != nil {
		if need := tape.Lacks(size); need > 0 {
			p.Unlock()
			l.ask(l.supervisor, &growRequest{lane: l.laneOf(p), need: need})
			p.Lock()
			tape = p.tape
		}
	}
	lost := false
	if tape != nil {
		got = tape.Alloc(size)
		if got.Slot != stream.None || got.Guest {
			p.HandOut(got.Addr, size)
			p.Unlock()
			return got.Addr, nil
		}
		lost = unexpected(&got) && l.laneOf(p).lost(tape.State.Hits, mem.Round(size))
	}
	p.Unlock()
	if lost {
		l.ask(l.supervisor, &lostRequest{lane: l.laneOf(p)})
	}
	var addr mem.Addr
	var err error
	if tape == nil {
		var hit bool
		if addr, hit, err = l.Serve(p, size); hit {
			return addr, nil
		}
	} else if addr, err = l.Alloc(id, 0, size); err == nil && got.Ticket != 0 {
		l.laneOf(p).hold(addr, got.Ticket)
	}
	if err != nil {
		return 0, err
	}
	p.Lock()
	l.host.count(mem.Round(size))
	p.push(Event{Addr: addr, Size: mem.Round(size), Kind: EventMiss})
	p.Unlock()
	return addr, nil
}

// Release frees a block by its address.
func (l *Local) Release(addr mem.Addr) error {
	if addr == 0 {
		return nil
	}
	if a := l.arenaOf(addr); a != nil {
		p := l.portOf(a)
		p.Lock()
		f := a.tape.Free(addr)
		found := f.Slot != stream.None || f.Guest
		if found {
			l.host.count(-mem.Round(f.Asked))
			p.push(Event{Addr: addr, Kind: EventFree})
		}
		p.Unlock()
		if f.Pinned {
			l.FreePinned(addr, f.Asked)
		}
		if found {
			return nil
		}
	}
	id, err := l.Owner(addr)
	if err != nil {
		return fmt.Errorf("free of %#x: %w", uint64(addr), err)
	}
	p := l.host.Port(id)
	p.Lock() // the event goes first: once freed, the address may be handed out again
	p.push(Event{Addr: addr, Kind: EventFree})
	p.Unlock()
	freed, err := l.Free(addr)
	if err != nil {
		return fmt.Errorf("free of %#x: %w", uint64(addr), err)
	}
	l.host.count(-freed.Size)
	return nil
}

// Use says that work on another stream uses the block at addr: when freed, the
// block waits for that stream.
func (l *Local) Use(addr mem.Addr, id mem.StreamID) error {
	if err := l.Record(addr, id); err != nil {
		return err
	}
	if owner := l.ownerOf(addr); owner != nil {
		owner.Lock()
		owner.push(Event{Addr: addr, Kind: EventPin})
		owner.Unlock()
	}
	return nil
}

func (l *Local) ownerOf(addr mem.Addr) *GoPort {
	if a := l.arenaOf(addr); a != nil {
		return l.portOf(a)
	}
	id, err := l.Owner(addr)
	if err != nil {
		return nil
	}
	return l.host.Port(id)
}

// LostEvents counts the requests and frees that the planner did not see: there were too
// many in a step, or the steps ended too fast.
func (l *Local) LostEvents() uint64 { return l.host.lost.Load() + l.inbox.lost() }

// Load returns the sum of live rounded sizes and its peak.
func (l *Local) Load() (now, peak mem.Bytes) {
	return l.host.Load(), mem.Bytes(l.host.peak.Load())
}
