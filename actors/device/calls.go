package device

import (
	"fmt"
	"strings"
	"time"

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

var kindNames = [...]struct{ method, driver string }{
	CallReserve:   {"Reserve", "cuMemAddressReserve"},
	CallUnreserve: {"Unreserve", "cuMemAddressFree"},
	CallCreate:    {"Create", "cuMemCreate"},
	CallRelease:   {"Release", "cuMemRelease"},
	CallMap:       {"Map", "cuMemMap"},
	CallAccess:    {"Access", "cuMemSetAccess"},
	CallUnmap:     {"Unmap", "cuMemUnmap"},
	CallRecord:    {"Record", "cuEventRecord"},
	CallDone:      {"Done", "cuEventQuery"},
	CallSync:      {"Sync", "cuStreamSynchronize"},
	CallMalloc:    {"Malloc", "cuMemAlloc"},
	CallFree:      {"Free", "cuMemFree"},
	CallMemory:    {"Memory", "cuMemGetInfo"},
	AnyCall:       {"any call", "any driver call"},
}

// String returns the method's name.
func (k Kind) String() string { return kindNames[k].method }

// Driver returns the name of the driver's function behind the method.
func (k Kind) Driver() string { return kindNames[k].driver }

// Call is one call of a device: what was passed, what came back. Fields that a
// kind does not have are zero.
type Call struct {
	Kind   Kind
	Addr   mem.Addr
	Size   mem.Bytes
	Handle driver.Handle
	Stream mem.StreamID
	Fence  driver.Fence
	Passed bool // Done's answer
	Err    error

	began time.Duration // by Count's clock
}

// String prints the call as "Map addr=0x200000 handle=3" and, if it failed, why.
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(c.Kind.String())
	show := func(name, format string, value any, present bool) {
		if present {
			fmt.Fprintf(&b, " %s="+format, name, value)
		}
	}
	show("addr", "%#x", uint64(c.Addr), c.Addr != 0)
	show("size", "%v", c.Size, c.Size != 0)
	show("handle", "%d", uint64(c.Handle), c.Handle != 0)
	show("stream", "%d", uint64(c.Stream), c.Stream != 0)
	show("fence", "%d", uint64(c.Fence), c.Fence != 0)
	show("passed", "%t", c.Passed, c.Kind == CallDone)
	show("error", "%v", c.Err, c.Err != nil)
	return b.String()
}
