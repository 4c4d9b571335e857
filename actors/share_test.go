package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// all reports whether every usable page is usable by these peers too.
func all(s *devicetest.Rights, peers ...int) error {
	for at, who := range s.May {
		if !slices.Equal(who, peers) {
			return fmt.Errorf("page %#x is usable by %v, expected %v", uint64(at), who, peers)
		}
	}
	if len(s.May) < 100 {
		return fmt.Errorf("only %d pages are usable", len(s.May))
	}
	return nil
}

// TestShare: what is mapped when a peer comes, and all that is mapped later, is usable
// by it, stitched views and evicted ones included.
func TestShare(t *testing.T) {
	gpu := devicetest.NewRights(sim.New(sim.Config{}))
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
		if err := all(gpu, peers...); err != nil {
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
	gpu.Fails = 3
	if err := l.Share(3); err == nil {
		t.Error("a peer that gets no rights is accepted")
	}
	if gpu.Fails != 0 || !slices.Equal(gpu.Peers, []int{1, 2}) {
		t.Errorf("after a failure peers are %v, expected 1 and 2", gpu.Peers)
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
