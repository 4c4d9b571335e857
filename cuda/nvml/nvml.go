//go:build cgo

// Package nvml tells where the memory of a GPU is that this process does not
// hold: the driver's own figures, and what every other process has.
//
// The idea: CUDA says how much of a device is free, not who has the rest. NVML,
// the driver's management library, knows. It is asked twice in the life of an
// allocator, at the start and when memory runs out, and it need not be there:
// without it every function here returns an error that matches ErrAbsent, and
// nothing else happens.
//
// One question on its way: Snapshot → the library is opened, its nvmlInit looked
// up and called, all on the first question of the process → the device is found
// by the UUID that CUDA gave for it → its memory → its processes → their names.
// Importing this package runs nothing of NVML and opens nothing.
//
// Devices are named by UUID, as (*cuda.Device).UUID returns it, because ordinals
// do not agree: CUDA counts the devices that CUDA_VISIBLE_DEVICES lists, in its
// order and fastest first by default, NVML counts all of them by PCI bus.
//
// go-nvml, which this package is made of, refers to some 400 functions that the
// dynamic linker finds when they are first called; one that the installed driver
// lacks ends the process. So nothing is called here that was not looked up
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
	Call string // NVML's function, such as nvmlDeviceGetMemoryInfo
	Code int    // its nvmlReturn_t
	Text string // the library's own words for it, or ""
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s failed with error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s failed with error %d (%s)", e.Call, e.Code, e.Text)
}

// Memory is a device's memory at one moment.
type Memory struct {
	UUID string // as NVML writes it: "GPU-..." or "MIG-..."
	// Total = Used + Free + Reserved. Reserved is what the driver and the
	// firmware keep; drivers before R510 count it as used.
	Total, Used, Free, Reserved mem.Bytes
	// Processes are those that hold memory of the device, the largest first.
	Processes []Process
	// Hidden says why Processes may lack some or all, nil if it is complete.
	Hidden error
}

// Process is a process that holds memory of a device, in the host's numbering, which a
// container's may differ from.
type Process = explain.Holder

// Unknown stands for an amount of memory that the driver keeps to itself.
const Unknown mem.Bytes = -1

// system is the NVML of this machine.
var system = newReader(openSystem, "/proc", os.Getpid())

// Snapshot asks for the memory of one device and for who holds it. The device is
// named by its UUID, with or without "GPU-" or "MIG-", or by its PCI bus id
// ("0000:3b:00.0"), or by its place in NVML's own list ("0"), which is not
// CUDA's. It may be called from any thread at any time; calls wait for each
// other. An error matches ErrAbsent, or is an *Error, or says what is wrong with
// the name.
func Snapshot(device string) (Memory, error) { return system.snapshot(device) }

// Holders are the processes that hold memory of a device. An error may come with some of
// them: others may be missing. Names and errors are those of Snapshot.
func Holders(device string) ([]Process, error) {
	m, err := Snapshot(device)
	return m.Processes, errors.Join(err, m.Hidden)
}
