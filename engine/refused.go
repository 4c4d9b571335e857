package engine

import (
	"stalloc/internal/driver"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
)

// Reason says why a request was refused.
type Reason uint8

const (
	// RefusedSize: the size is negative, or larger than half the address window or
	// than all that can be held.
	RefusedSize Reason = iota + 1
	// RefusedLimit: Config.Limit forbids the handles that are missing.
	RefusedLimit
	// RefusedDevice: the driver gave no more memory, or another error.
	RefusedDevice
	// RefusedWindow: the address window is used up.
	RefusedWindow
	// RefusedPending: see Means.
	RefusedPending
	// RefusedPlace: the place of an Exact request is not free, or not mapped.
	RefusedPlace
	// RefusedResting: a handle rests where the request is planned (MeansRise).
	RefusedResting
)

var reasonNames = [...]string{
	RefusedSize: "size", RefusedLimit: "limit", RefusedDevice: "device", RefusedWindow: "window",
	RefusedPending: "pending", RefusedPlace: "place", RefusedResting: "resting",
}

// NoMemory reports whether a request was refused because there is no room for it: the device is
// full, a limit is reached, or the block is larger than either; or its place has none for now. code
// is the driver's last, or 0.
func (r Reason) NoMemory(code int) bool {
	switch r {
	case RefusedSize, RefusedLimit, RefusedWindow, RefusedResting:
		return true
	case RefusedDevice:
		return code == 0 || code == driver.CodeOutOfMemory
	}
	return false
}

// String names the reason in one word.
func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return "none"
}

// RefusedError says why the engine could not serve a request.
type RefusedError struct {
	Reason Reason
	Code   int       // the driver's last error, or 0
	Limit  mem.Bytes // that the program has set, or 0
}

func (e *RefusedError) Error() string {
	f := explain.Figures{Asked: 1, Why: e.Why(), Code: e.Code, Limit: e.Limit}
	return f.Reason()
}

// Is reports whether there is no room for the block: the device is full, a limit is
// reached, or it is larger than either.
func (e *RefusedError) Is(target error) bool {
	return target == driver.ErrOutOfMemory && e.Reason.NoMemory(e.Code)
}

// Why is the reason in the words of the explanation.
func (e *RefusedError) Why() explain.Why {
	switch e.Reason {
	case RefusedSize:
		return explain.TooLarge
	case RefusedLimit:
		return explain.Limit
	case RefusedWindow:
		return explain.Window
	case RefusedDevice:
		if e.Reason.NoMemory(e.Code) {
			return explain.Full
		}
		return explain.Driver
	}
	return explain.Unknown
}
