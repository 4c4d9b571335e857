package engine

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// EventKind says what happened.
type EventKind uint8

const (
	// EvAlloc asks for a block: Req, Size, Stream, Pool, Planned, Poll, Wait, Lend. Exactly one
	// OpGrant or OpRefuse with the same Req answers it.
	EvAlloc EventKind = iota + 1
	// EvFree gives the block at Addr back.
	EvFree
	// EvRecord says that Stream also uses the block at Addr.
	EvRecord
	// EvFence says that the fence numbered Fence has passed.
	EvFence
	// EvBoundary ends a training step.
	EvBoundary
	// EvTrim asks to return every wholly free handle to the driver. With Pool
	// other than zero it says that this private pool is no longer used by any
	// graph and returns that pool's handles instead; those of blocks that outlive
	// it follow when they are free, or when Released is trimmed. Regions go on being used;
	// one that has nothing left is forgotten.
	EvTrim
	// EvFailed says that op number Failed of the last batch failed with Code and
	// that no later op of that batch ran.
	EvFailed
	// EvResume answers OpResume.
	EvResume
)

// FirstRegion is the first number of private pools that the program names and has sleep: regions.
const FirstRegion = uint64(1) << 63

// Regions stands for all of them in an EvTrim.
const Regions = uint64(1<<64 - 3)

// Released stands for all private pools that no graph uses any more, in an EvTrim.
const Released = uint64(1<<64 - 2)

// Event is one input of Step. Only the fields its kind names are read.
type Event struct {
	Kind   EventKind
	Req    uint64       // EvAlloc: the caller's ticket, repeated in the answer
	Size   mem.Bytes    // EvAlloc: bytes asked for
	Stream mem.StreamID // EvAlloc: the block's stream; EvRecord: another stream that used it
	Pool   uint64       // EvAlloc, EvTrim: 0 is the default pool, any other a private one
	Addr   mem.Addr     // EvFree, EvRecord
	Fence  driver.Fence // EvFence: the number an OpRecord carried
	Failed int          // EvFailed: index in the last batch of the op that failed
	Code   int          // EvFailed: the driver's error code
	// EvAlloc: refuse (RefusedPending) rather than serve the request elsewhere than planned, or
	// with the driver's help, while blocks wait for fences
	Poll bool
	// EvAlloc: refuse (RefusedPending) rather than make memory while as much waits for fences
	Wait bool
	// EvAlloc: have other streams lend memory, which waits for fences then, rather than make it;
	// refused as above
	Lend bool
	// EvAlloc: where the block is to lie if all of it is free there; 0: anywhere
	Planned mem.Addr
	// EvTrim: what a refused request took goes, which the program has not asked for
	Vain bool
}

// OpKind says what the runner has to do.
type OpKind uint8

const (
	// OpCreate makes the physical allocation of Size bytes that the engine calls Handle.
	OpCreate OpKind = iota + 1
	// OpMap maps Handle, all of its Size bytes, at Addr.
	OpMap
	// OpAccess grants the device read and write access to [Addr, Addr+Size).
	OpAccess
	// OpUnmap unmaps [Addr, Addr+Size), which holds whole mappings.
	OpUnmap
	// OpRelease returns Handle to the driver. It is mapped nowhere by then.
	OpRelease
	// OpRecord has a fence put on Stream, now or later: a freed block waits for it or, with
	// Addr, the view there, which is in no hurry. The number in Fence is the engine's
	// own; EvFence repeats it once the fence has passed. It cannot fail.
	OpRecord
	// OpSync waits until all work submitted to the device so far is done, on whatever
	// stream: of those that the engine knows some may be gone.
	OpSync
	// OpResume asks for EvResume with the same Req, before any other event, once
	// every op before it has succeeded.
	OpResume
	// OpGrant hands out the block [Addr, Addr+Size) for Req. It holds only if
	// every op before it in the batch succeeded.
	OpGrant
	// OpRefuse says that Req cannot be served, for Reason; Code is the driver's
	// last error code, or zero.
	OpRefuse
	// OpUnknown says that the event named something the engine does not know:
	// an address that is no live block, a fence nobody waits for, a failure of
	// an op that was not sent. Nothing has changed.
	OpUnknown
)

var opNames = [...]string{
	OpCreate: "create", OpMap: "map", OpAccess: "access", OpUnmap: "unmap", OpRelease: "release",
	OpRecord: "record", OpSync: "sync", OpResume: "resume", OpGrant: "grant", OpRefuse: "refuse", OpUnknown: "unknown",
}

// String names the op as the golden scripts write it.
func (k OpKind) String() string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return "invalid"
}

// Index names a handle: the engine's own dense number, from 1. The runner keeps
// the table from it to driver.Handle. Numbers of released handles are reused.
type Index uint32

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
	// RefusedPending: see Event.Poll and Event.Wait.
	RefusedPending
	// RefusedOrder: the runner sent another event where EvResume was due.
	RefusedOrder
)

var reasonNames = [...]string{
	RefusedSize: "size", RefusedLimit: "limit", RefusedDevice: "device", RefusedWindow: "window", RefusedOrder: "order", RefusedPending: "pending",
}

// String names the reason in one word.
func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return "none"
}

// Op is one output of Step. The ops of a batch are to be done in order.
type Op struct {
	Kind   OpKind
	Reason Reason       // OpRefuse
	Handle Index        // OpCreate, OpMap, OpRelease
	Code   int          // OpRefuse
	Req    uint64       // OpGrant, OpRefuse, OpResume
	Addr   mem.Addr     // OpMap, OpAccess, OpUnmap, OpRecord, OpGrant, OpUnknown
	Size   mem.Bytes    // OpCreate, OpMap, OpAccess, OpUnmap, OpGrant
	Stream mem.StreamID // OpRecord
	Fence  driver.Fence // OpRecord, OpUnknown
}
