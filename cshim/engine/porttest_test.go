//go:build porttest

package main

import (
	"math/rand/v2"
	"testing"

	"stalloc/actors/porttest"
	"stalloc/internal/mem"
)

// subjects opens ports on streams of their own, whose arenas share no addresses.
func subjects() func() (porttest.Subject, mem.Addr) {
	return func() (porttest.Subject, mem.Addr) {
		streams++
		return newFront(mem.StreamID(streams << 12)), mem.Addr(streams) << 42
	}
}

var streams uint64

func TestPortOverC(t *testing.T) { porttest.Run(t, subjects()) }

func TestPortOverCAtRandom(t *testing.T) {
	for range 20 {
		porttest.Random(t, rand.Uint64(), 60, subjects())
	}
}
