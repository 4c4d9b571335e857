//go:build gpu && cgo

package nvml

import (
	"testing"
	"time"

	"stalloc/cuda"
	"stalloc/internal/mem"
)

// TestGPU asks who holds memory of the first GPU, before and after this process takes some.
func TestGPU(t *testing.T) {
	driver, err := cuda.Open("")
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	uuid, err := gpu.UUID()
	if err != nil {
		t.Fatal(err)
	}
	used := func() (sum mem.Bytes) {
		start := time.Now()
		holders, err := Holders(uuid)
		t.Logf("%s, asked in %v: %+v", uuid, time.Since(start), holders)
		if err != nil {
			t.Error(err)
		}
		for _, h := range holders {
			sum += max(h.Used, 0)
		}
		return sum
	}
	before := used()
	if before == 0 {
		t.Skip("NVML does not tell here what this process holds")
	}
	block, err := gpu.Create(mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	if got := used() - before; got < mem.GiB || got > 2*mem.GiB {
		t.Errorf("a block of 1 GiB made NVML's figure rise by %v", got)
	}
	if err := gpu.Release(block); err != nil {
		t.Error(err)
	}
	if err := gpu.Close(); err != nil {
		t.Error(err)
	}
}
