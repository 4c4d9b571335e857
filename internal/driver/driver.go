// Package driver holds the names that every implementation of a device shares:
// handles, fences and the errors of driver calls. It calls nothing itself.
package driver

import (
	"errors"
	"fmt"
)

// Handle names one physical allocation. Zero is no handle.
type Handle uint64

// Fence names a point on a stream that pending work will pass. Zero is none.
type Fence uint64

// Shared names the memory of a handle to other processes.
type Shared struct {
	FD int // a file descriptor of the process; -1: there is a name
	// FabricName bytes that mean the same on every host of a fabric; "": there is a descriptor
	Fabric string
}

// FabricName is how many bytes a fabric's name of memory has.
const FabricName = 64

// ErrOutOfMemory is matched, by errors.Is, by every driver error that says the
// device has no memory left.
var ErrOutOfMemory = errors.New("out of device memory")

// ErrNoSuchDevice is matched by the error of a device that the driver does not list.
var ErrNoSuchDevice = errors.New("no such device")

// CodeOutOfMemory is CUDA_ERROR_OUT_OF_MEMORY, codeNoSuchDevice CUDA_ERROR_INVALID_DEVICE.
const (
	CodeOutOfMemory  = 2
	codeNoSuchDevice = 101
)

// Error is a driver call that failed.
type Error struct {
	Call string // the driver's function, such as cuMemCreate
	Code int    // the CUresult
	Name string // the CUresult's name, if known
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s failed with driver error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s failed with driver error %d (%s)", e.Call, e.Code, e.Name)
}

// Is reports whether the error means that the device is full, or that there is none.
func (e *Error) Is(target error) bool {
	return target == ErrOutOfMemory && e.Code == CodeOutOfMemory ||
		target == ErrNoSuchDevice && e.Code == codeNoSuchDevice
}
