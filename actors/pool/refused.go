package pool

import (
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
)

// RefusedError says why the engine could not serve a request.
type RefusedError struct {
	Reason engine.Reason
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
	case engine.RefusedSize:
		return explain.TooLarge
	case engine.RefusedLimit:
		return explain.Limit
	case engine.RefusedWindow:
		return explain.Window
	case engine.RefusedDevice:
		if e.Reason.NoMemory(e.Code) {
			return explain.Full
		}
		return explain.Driver
	}
	return explain.Unknown
}
