package devicetest

import (
	"errors"
	"slices"

	"stalloc/actors/device"
	"stalloc/internal/mem"
)

// Rights is a device that keeps book of who may use which page.
type Rights struct {
	device.Device
	May   map[mem.Addr][]int // by page: who, without the owner
	Peers []int              // that are enabled
	Fails int                // calls of Access with peers until one fails; 0: none does
}

// NewRights makes a device on which nothing is mapped yet.
func NewRights(d device.Device) *Rights { return &Rights{Device: d, May: map[mem.Addr][]int{}} }

// EnablePeers takes any ordinals but 9.
func (r *Rights) EnablePeers(ordinals ...int) error {
	if slices.Contains(ordinals, 9) {
		return errors.New("9 is out of reach")
	}
	r.Peers = slices.Clone(ordinals)
	return nil
}

// Access notes who may use the pages.
func (r *Rights) Access(addr mem.Addr, size mem.Bytes) error {
	if len(r.Peers) > 0 && r.Fails > 0 {
		if r.Fails--; r.Fails == 0 {
			return errors.New("no rights for a peer")
		}
	}
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		r.May[at] = slices.Clone(r.Peers)
	}
	return r.Device.Access(addr, size)
}

// Unmap forgets the pages.
func (r *Rights) Unmap(addr mem.Addr, size mem.Bytes) error {
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		delete(r.May, at)
	}
	return r.Device.Unmap(addr, size)
}
