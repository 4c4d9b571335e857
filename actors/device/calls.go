package device

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Kind is one of the calls a device serves.
type Kind uint8

// The kinds, in the order of the interface. AnyCall stands for all of them in a
// Rule.
const (
	CallReserve Kind = iota
	CallUnreserve
	CallCreate
	CallRelease
	CallMap
	CallAccess
	CallUnmap
	CallRecord
	CallDone
	CallSync
	CallMalloc
	CallFree
	CallMemory
	Kinds           // how many there are
	AnyCall = Kinds // in a Rule
)

var drivers = [...]string{
	CallReserve:   "cuMemAddressReserve",
	CallUnreserve: "cuMemAddressFree",
	CallCreate:    "cuMemCreate",
	CallRelease:   "cuMemRelease",
	CallMap:       "cuMemMap",
	CallAccess:    "cuMemSetAccess",
	CallUnmap:     "cuMemUnmap",
	CallRecord:    "cuEventRecord",
	CallDone:      "cuEventQuery",
	CallSync:      "cuStreamSynchronize",
	CallMalloc:    "cuMemAlloc",
	CallFree:      "cuMemFree",
	CallMemory:    "cuMemGetInfo",
	AnyCall:       "any driver call",
}

// Driver returns the name of the driver's function behind the method.
func (k Kind) Driver() string { return drivers[k] }

// Call is one call of a device: what was passed, what came back. Fields that a
// kind does not have are zero.
type Call struct {
	Kind   Kind
	Addr   mem.Addr
	Size   mem.Bytes
	Handle driver.Handle
	Err    error
}
