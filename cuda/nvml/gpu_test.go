//go:build gpu && cgo

package nvml

import (
	"testing"
	"time"

	"stalloc/cuda"
	"stalloc/internal/mem"
)

// TestGPU compares what NVML and CUDA say about the first GPU.
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
	start := time.Now()
	before, err := Snapshot(uuid)
	if err != nil {
		t.Fatal(err)
	}
	first := time.Since(start)
	_, total, err := gpu.Memory()
	if err != nil {
		t.Fatal(err)
	}
	// CUDA leaves out what the driver keeps.
	if total > before.Total || total < before.Total*9/10 {
		t.Errorf("CUDA counts %v in all, NVML %v", total, before.Total)
	}
	block, err := gpu.Create(mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	after, err := Snapshot(before.UUID)
	if err != nil {
		t.Fatal(err)
	}
	second := time.Since(start)
	if got := after.Used - before.Used; got < mem.GiB || got > 2*mem.GiB {
		t.Errorf("a block of 1 GiB made NVML's figure rise by %v", got)
	}
	if after.Total != after.Used+after.Free+after.Reserved {
		t.Errorf("the parts do not make the whole: %+v", after)
	}
	t.Logf("%s, first asked in %v, then in %v: %v", before.UUID, first, second, after)
	if err := gpu.Release(block); err != nil {
		t.Error(err)
	}
	if err := gpu.Close(); err != nil {
		t.Error(err)
	}
}
