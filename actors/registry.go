package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// adopt starts an actor for every stream that has appeared.
func (d *Device) adopt() []*lane {
	lanes := *d.lanes.Load()
	ports := d.host.Ports()
	if len(lanes) >= len(ports) {
		return lanes
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lanes = append([]*lane(nil), *d.lanes.Load()...)
	for i := len(lanes); i < len(ports); i++ {
		l := &lane{port: ports[i], ordinal: i, tuning: stream.Tunings[0]}
		l.pid = d.root.Spawn(onCaller(func() actor.Actor { return &streamActor{lane: l} }))
		lanes = append(lanes, l)
	}
	d.lanes.Store(&lanes)
	return lanes
}

// laneOf returns the lane of a port, nil before the port is adopted.
func (d *Device) laneOf(port Port) *lane {
	for _, l := range *d.lanes.Load() {
		if l.port.ID() == port.ID() {
			return l
		}
	}
	return nil
}

// remember makes an arena known to frees. Readers take no lock, so the list is
// replaced.
func (d *Device) remember(a *arena) {
	d.mu.Lock()
	defer d.mu.Unlock()
	arenas := append(append([]*arena(nil), *d.arenas.Load()...), a)
	d.arenas.Store(&arenas)
}

func (d *Device) forget(gone *arena) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var arenas []*arena
	for _, a := range *d.arenas.Load() {
		if a != gone {
			arenas = append(arenas, a)
		}
	}
	d.arenas.Store(&arenas)
}

// arenaOf returns the arena that contains an address, or nil.
func (d *Device) arenaOf(addr mem.Addr) *arena {
	for _, a := range *d.arenas.Load() {
		if a.contains(addr) {
			return a
		}
	}
	return nil
}
