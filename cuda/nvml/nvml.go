//go:build cgo

// Package nvml tells where the memory of a GPU is that this process does not
// hold: what every other process has.
//
// The idea: CUDA says how much of a device is free, not who has the rest. NVML,
// the driver's management library, knows. It is asked twice in the life of an
// allocator, at the start and when memory runs out, and it need not be there:
// without it Holders returns an error that matches ErrAbsent, and nothing else
// happens.
//
// One question on its way: Holders → the library is opened, its nvmlInit looked
// up and called, all on the first question of the process → the device is found
// by the UUID that CUDA gave for it → its processes → their names.
// Importing this package runs nothing of NVML and opens nothing.
//
// Devices are named by UUID, as (*cuda.Device).UUID returns it, because ordinals
// do not agree: CUDA counts the devices that CUDA_VISIBLE_DEVICES lists, in its
// order and fastest first by default, NVML counts all of them by PCI bus.
//
// go-nvml, which this package is made of, refers to some 400 functions that the
// dynamic linker finds when they are first called; one that is missing in the
// installed driver ends the process. So nothing is called here that was not looked up
// first. For the same reason a program with this package in it loads only where
// the linker binds lazily: not under LD_BIND_NOW, not linked with -z now, unless it
// brings those functions itself, as stalloc's own library does (cshim/engine/nvml.c).
package nvml

import (
	"errors"
	"fmt"
	"os"

	"stalloc/internal/explain"
	"stalloc/internal/mem"
)

// ErrAbsent is matched by the error of every question where NVML cannot be used
// at all: there is no library, it is none of NVIDIA's, or no driver is loaded.
// The reason is found once per process and then stays.
var ErrAbsent = errors.New("NVML is not available")

// Error is a call of NVML that failed.
type Error struct {
	Call string // NVML's function, such as nvmlDeviceGetHandleByUUID
	Code int    // its nvmlReturn_t
	Text string // the library's own words for it, or ""
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s failed with error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s failed with error %d (%s)", e.Call, e.Code, e.Text)
}

// Process is a process that holds memory of a device, in the host's numbering, which a
// container's may differ from.
type Process = explain.Holder

// Unknown stands for an amount of memory that the driver keeps to itself.
const Unknown mem.Bytes = -1

// system is the NVML of this machine.
var system = newReader(openSystem, "/proc", os.Getpid())

// Holders are the processes that hold memory of a device, the largest first. The
// device is named by its UUID, with or without "GPU-" or "MIG-". It may be called
// from any thread at any time; calls wait for each other. An error may come with
// some of them: others may be missing. It matches ErrAbsent, or an *Error.
func Holders(device string) ([]Process, error) { return system.holders(device) }
