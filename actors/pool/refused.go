package pool

import (
	"fmt"

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
	switch why := e.Why(); {
	case why == explain.TooLarge:
		return "no block can be that large: it exceeds the memory of the device"
	case why == explain.Limit && e.Limit > 0:
		return fmt.Sprintf("the memory limit is reached: %v", e.Limit)
	case why == explain.Window:
		return "the address window is used up; set STALLOC_CONF=window:SIZE to reserve more"
	case why == explain.Driver:
		return fmt.Sprintf("the driver failed with error %d", e.Code)
	}
	return "the device has no memory left" // the engine's limit is what the device has
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
