//go:build cgo

// Package sleep has memory sleep over the fake driver, which has bytes: what wakes is what slept.
package sleep

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"stalloc/actors"
	"stalloc/actors/region"
	"stalloc/cuda"
	"stalloc/internal/mem"
	"stalloc/tests/fakecuda/fake"
)

var lib *fake.Library

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "fakecuda")
	if err == nil {
		lib, err = fake.Load(folder)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

const capacity = 256 * mem.MiB

// kit is an allocator over the fake driver, and what its blocks hold.
type kit struct {
	*actors.Local
	*testing.T
	gpu     *cuda.Device
	weights uint64
	holds   map[mem.Addr][]byte
	random  *rand.Rand
}

func newKit(t *testing.T) *kit { return newKitOf(t, actors.Options{}, false) }

// newKitOf is a kit with settings, whose memory other processes may have if it is shared.
func newKitOf(t *testing.T, opts actors.Options, shared bool) *kit {
	t.Helper()
	opts.Inline = true
	t.Setenv("FAKECUDA_CAPACITY", "268435456")
	t.Setenv("FAKECUDA_ANY_STREAM", "1")
	lib.Reset()
	driver, err := cuda.Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{T: t, holds: map[mem.Addr][]byte{}, random: rand.New(rand.NewPCG(1, 2))}
	if k.gpu, err = driver.Device(0); err == nil && shared {
		err = k.gpu.Share(false)
	}
	if err == nil {
		k.Local, err = actors.OpenLocal(k.gpu, opts)
	}
	if err == nil {
		k.weights, err = region.Number("weights")
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// malloc takes a block of a pool and fills it.
func (k *kit) malloc(pool uint64, size mem.Bytes) mem.Addr {
	k.Helper()
	addr, err := k.MallocIn(1, pool, size)
	if err != nil {
		k.Fatal(err)
	}
	content := make([]byte, size)
	for i := 0; i < len(content); i += 61 {
		content[i] = byte(k.random.Uint32())
	}
	if err := k.gpu.Write(addr, content); err != nil {
		k.Fatal(err)
	}
	k.holds[addr] = content
	return addr
}

func (k *kit) free(addr mem.Addr) {
	k.Helper()
	if err := k.Release(addr); err != nil {
		k.Fatal(err)
	}
	delete(k.holds, addr)
}

// program leaves blocks of both pools, gaps between them, small ones, and one in a view.
func (k *kit) program() {
	k.Helper()
	var some []mem.Addr
	for i := range 24 {
		pool := uint64(0)
		if i%3 == 0 {
			pool = k.weights
		}
		some = append(some, k.malloc(pool, mem.Bytes(1+i%5)*mem.MiB+mem.Bytes(i)*512),
			k.malloc(pool, mem.Bytes(700+i)))
	}
	for i := 0; i < len(some); i += 4 {
		k.free(some[i])
	}
	for range 4 {
		k.malloc(0, 9*mem.MiB)
	}
	if s := k.Stats(); s.Engine.Views == 0 {
		k.Fatalf("nothing is stitched: %+v", s.Engine)
	}
}

// same fails unless every block holds what it held.
func (k *kit) same(what string, args ...any) {
	k.Helper()
	for addr, want := range k.holds {
		got := make([]byte, len(want))
		if err := k.gpu.Read(got, addr); err != nil {
			k.Fatalf(what+": %v", append(args, err)...)
		}
		if !bytes.Equal(got, want) {
			k.Fatalf(what+": the block at %#x holds something else", append(args, uint64(addr))...)
		}
	}
}

// taken returns the device's memory that is in use, as the driver sees it.
func (k *kit) taken() mem.Bytes {
	k.Helper()
	free, total, err := k.gpu.Memory()
	if err != nil {
		k.Fatal(err)
	}
	return total - free
}

func (k *kit) end() {
	k.Helper()
	if err := k.Check(); err != nil {
		k.Error(err)
	}
	// Where calls are made to fail, those that restore a thread's context are among them.
	if err := k.Close(); err != nil && !strings.Contains(err.Error(), "could not be restored") {
		k.Error(err)
	}
	for _, kind := range []string{"handles", "mappings", "reservations"} {
		if n := lib.Live(kind); n != 0 {
			k.Errorf("%d %s are left", n, kind)
		}
	}
}
