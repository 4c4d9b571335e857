package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// shared is a device that keeps book of who may use which page.
type shared struct {
	device.Device
	peers []int
	may   map[mem.Addr][]int // by page: who, without the owner
	fails int                // calls of Access with peers until one fails; 0: none does
}

func (s *shared) EnablePeers(ordinals ...int) error {
	if slices.Contains(ordinals, 9) {
		return errors.New("9 is out of reach")
	}
	s.peers = slices.Clone(ordinals)
	return nil
}

func (s *shared) Access(addr mem.Addr, size mem.Bytes) error {
	if len(s.peers) > 0 && s.fails > 0 {
		if s.fails--; s.fails == 0 {
			return errors.New("no rights for a peer")
		}
	}
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		s.may[at] = slices.Clone(s.peers)
	}
	return s.Device.Access(addr, size)
}

func (s *shared) Unmap(addr mem.Addr, size mem.Bytes) error {
	for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
		delete(s.may, at)
	}
	return s.Device.Unmap(addr, size)
}

// all reports whether every usable page is usable by these peers too.
func (s *shared) all(peers ...int) error {
	for at, who := range s.may {
		if !slices.Equal(who, peers) {
			return fmt.Errorf("page %#x is usable by %v, expected %v", uint64(at), who, peers)
		}
	}
	if len(s.may) < 100 {
		return fmt.Errorf("only %d pages are usable", len(s.may))
	}
	return nil
}

// TestShare: what is mapped when a peer comes, and all that is mapped later, is usable
// by it, stitched views and evicted ones included.
func TestShare(t *testing.T) {
	gpu := &shared{Device: sim.New(sim.Config{}), may: map[mem.Addr][]int{}}
	l, err := OpenLocal(gpu, Options{Without: without.Plans})
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var held []mem.Addr
	churn := func() {
		for range 400 {
			at, err := l.Malloc(0, mem.Bytes(rng.IntN(40)+1)*mem.MiB)
			if err != nil {
				t.Fatal(err)
			}
			if held = append(held, at); len(held) > 30 {
				i := rng.IntN(len(held))
				if err := l.Release(held[i]); err != nil {
					t.Fatal(err)
				}
				held = slices.Delete(held, i, i+1)
			}
		}
		if err := l.Trim(0); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, peers ...int) {
		t.Helper()
		if err := gpu.all(peers...); err != nil {
			t.Fatalf("seed %d, %s: %v", seed, what, err)
		}
	}
	churn()
	check("alone")
	for peer := 1; peer <= 2; peer++ {
		if err := errors.Join(l.Share(1), l.Share(peer)); err != nil {
			t.Fatal(err)
		}
		check("a peer has come", []int{1, 2}[:peer]...)
		churn()
		check("later", []int{1, 2}[:peer]...)
	}
	if err := l.Share(9); err == nil {
		t.Error("a device out of reach is accepted")
	}
	gpu.fails = 3
	if err := l.Share(3); err == nil {
		t.Error("a peer that gets no rights is accepted")
	}
	if gpu.fails != 0 || !slices.Equal(gpu.peers, []int{1, 2}) {
		t.Errorf("after a failure peers are %v, expected 1 and 2", gpu.peers)
	}
	churn()
	if err := errors.Join(l.Check(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestShareAlone(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Share(1); !errors.Is(err, device.ErrAlone) {
		t.Errorf("a device without others: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
