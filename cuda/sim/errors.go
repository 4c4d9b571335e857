package sim

import (
	"fmt"

	"stalloc/internal/driver"
)

// The driver's codes that this device answers with.
const (
	codeInvalidValue   = 1
	codeDeinitialized  = 4
	codeIllegalAddress = 700
	codeInvalidHandle  = 400
	codeNotSupported   = 801
)

var codeNames = map[int]string{
	codeInvalidValue:       "CUDA_ERROR_INVALID_VALUE",
	driver.CodeOutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY",
	codeDeinitialized:      "CUDA_ERROR_DEINITIALIZED",
	codeIllegalAddress:     "CUDA_ERROR_ILLEGAL_ADDRESS",
	codeInvalidHandle:      "CUDA_ERROR_INVALID_HANDLE",
	codeNotSupported:       "CUDA_ERROR_NOT_SUPPORTED",
}

// refuse is a driver error with the reason that the driver would not give.
func refuse(call string, code int, reason string, args ...any) error {
	err := &driver.Error{Call: call, Code: code, Name: codeNames[code]}
	return fmt.Errorf("%w: "+reason, append([]any{err}, args...)...)
}
