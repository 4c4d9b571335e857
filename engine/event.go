package engine

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// EventKind says what happened.
type EventKind uint8

const (
	// EvAlloc asks for a block: Req, Asked, Stream, Pool, Addr, Means. Exactly one
	// OpGrant or OpRefuse with the same Req answers it.
	EvAlloc EventKind = iota + 1
	// EvFree gives the block at Addr back.
	EvFree
	// EvUseStream says that Stream also uses the block at Addr (record_stream).
	EvUseStream
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
	// EvCapture says that a graph is captured that uses the private pool Pool. From now on, until
	// the pool is trimmed as one that no graph uses, its addresses and what is mapped there stay.
	EvCapture
	// EvLend makes streams lend Asked bytes of wholly free handles, of Unit bytes each if an arena
	// has enough of these. A lent handle rests once the fence after its stream's work has
	// completed. So handles lent at earlier events rest now, and only what is missing is lent in
	// addition. Nothing waits.
	EvLend
	// EvRise says that Handle, which rests, has memory again.
	EvRise
	// EvFailed says that op number Failed of the last batch failed with Code and
	// that no later op of that batch ran.
	EvFailed
	// EvResume answers OpResume.
	EvResume

	// The following are package order's alone.

	// EvAnswer answers OpQuery: Fence, Passed; or Code, if the driver cannot tell. An event that
	// the driver has refused has not passed.
	EvAnswer
	// EvUnrecorded says that the driver has not taken OpRecordEvent of Fence.
	EvUnrecorded
	// EvSynced says that the device was waited for.
	EvSynced
	// EvPoll asks about all fences.
	EvPoll
)

// FirstRegion is the first number of private pools that the program names and has sleep: regions.
const FirstRegion = uint64(1) << 63

// Regions stands in an EvTrim for all private pools that no graph uses, regions among them.
const Regions = uint64(1<<64 - 3)

// Released stands for all private pools that no graph uses any more, in an EvTrim.
const Released = uint64(1<<64 - 2)

// Event is one input of Step. Only the fields its kind names are read.
type Event struct {
	Kind   EventKind
	Req    uint64       // EvAlloc: the caller's ticket, repeated in the answer
	Asked  mem.Bytes    // EvAlloc, EvLend: bytes asked for; EvTrim: as much is enough, 0: all
	Stream mem.StreamID // EvAlloc: the block's stream; EvUseStream: another stream that used it
	Unit   mem.Bytes    // EvLend: the size of what is missing, 0: any
	Handle Index        // EvRise
	Pool   uint64       // EvAlloc, EvTrim, EvCapture: 0 is the default pool, any other private
	// EvFree, EvUseStream; EvAlloc: where the block is to lie if all of it is free there, 0:
	// anywhere
	Addr       mem.Addr
	Exact      bool         // EvAlloc: the block lies at Addr, or nowhere
	Persistent bool         // EvAlloc: Stream is never destroyed, so it may lend memory
	Means      Means        // EvAlloc: what comes before memory is made for it
	Rollback   bool         // EvTrim: the program has not asked; what was made is taken back
	Fence      driver.Fence // EvFence: the number an OpFence carried
	Failed     int          // EvFailed: index in the last batch of the op that failed
	Code       int          // EvFailed: the driver's error code
	Around
}

// Around is what package order reads of an event, and no policy.
type Around struct {
	Now       Nanos
	Capturing bool // EvAlloc: a stream may be captured: nobody may wait for the device
	CanWait   bool // EvAlloc: the thread holds nothing that others may need while it waits
	// EvFree: the program freed the block some time ago, so streams that used it may be gone
	Deferred bool
	Idle     bool // EvFree: no stream can have work on the block
	Passed   bool // EvAnswer
}

// Answers reports whether the event answers a batch that ended with OpResume, as it must if one is
// due. A runner that does otherwise has lost track, and so have the books.
func (ev *Event) Answers(due bool) bool {
	answers := ev.Kind == EvResume || ev.Kind == EvFailed
	if answers != due {
		panic("a batch is answered once, before any other event")
	}
	return answers
}

// Nanos is a time in nanoseconds since some moment, or a length of time.
type Nanos int64

// Means are what a policy prefers to serving a request with new memory, or elsewhere than planned.
// Each ends in a refusal (RefusedPending): the request comes again.
type Means uint8

const (
	// MeansPoll: while blocks wait for fences, the request is not served elsewhere than planned,
	// nor with the driver's help: the driver is to be asked about the fences first.
	MeansPoll Means = 1 << iota
	// MeansWait: no memory is made while as much waits for fences.
	MeansWait
	// MeansBorrow: other streams lend memory, which waits for fences then.
	MeansBorrow
	// MeansRoom: where no memory can be made the request is refused, before the device is waited
	// for: the runner can make room. It and the next are told by the runner.
	MeansRoom
	// MeansRise: a request that is planned where a handle rests is refused (RefusedResting): a
	// region is leaving, so handles rise. Elsewhere it would take the place of other planned
	// blocks, and so would they.
	MeansRise
)

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
	// OpRest makes Handle rest: until EvRise its memory may serve another handle. It stays mapped
	// where it is, and no block is granted there. It cannot fail.
	OpRest
	// OpFence asks for a fence behind the work that Stream has so far: a freed block waits for it
	// or, with Addr, the view there, which is in no hurry. The number in Fence is the policy's own;
	// EvFence repeats it once the fence has passed. Package order takes these: a runner gets none.
	OpFence
	// OpSync waits until all work submitted to the device so far is done, on whatever
	// stream: of those that the engine knows some may be gone.
	OpSync
	// OpRecordEvent records an event of the driver, numbered Fence, behind the work that Stream has
	// so far. If the driver refuses, EvUnrecorded says so after the batch; with Must it fails the
	// batch.
	OpRecordEvent
	// OpQuery ends a batch: after Delay the driver is asked whether Fence has passed, and EvAnswer
	// is due before any other event.
	OpQuery
	// OpResume asks for EvResume with the same Req, before any other event, once
	// every op before it has succeeded.
	OpResume
	// OpGrant hands out the block [Addr, Addr+Size) for Req. It holds only if
	// every op before it in the batch succeeded.
	OpGrant
	// OpRefuse says that Req cannot be served, for Reason; Code is the driver's
	// last error code, or zero.
	OpRefuse
	// OpWait answers Req: ask again soon. With RefusedDevice as Reason even a thread that cannot
	// wait sleeps meanwhile, since the request would be refused otherwise.
	OpWait
	// OpFreed says that no stream uses the freed block [Addr, Addr+Size) of Stream any more.
	OpFreed
	// OpUnknown says that the event named something the engine does not know:
	// an address that is no live block, or a fence nobody waits for. Nothing has changed.
	OpUnknown
)

// Index names a handle: the engine's own dense number, from 1. The runner keeps
// the table from it to driver.Handle. Numbers of released handles are reused.
type Index uint32

// Op is one output of Step. The ops of a batch are to be done in order.
type Op struct {
	Kind   OpKind
	Reason Reason       // OpRefuse
	Handle Index        // OpCreate, OpMap, OpRelease, OpRest
	Code   int          // OpRefuse
	Req    uint64       // OpGrant, OpRefuse, OpResume
	Addr   mem.Addr     // OpMap, OpAccess, OpUnmap, OpFence, OpGrant, OpFreed
	Size   mem.Bytes    // OpCreate, OpMap, OpAccess, OpUnmap, OpGrant, OpFreed
	Stream mem.StreamID // OpFence, OpRecordEvent, OpFreed
	Fence  driver.Fence // OpFence, OpRecordEvent, OpQuery
	Delay  Nanos        // OpQuery
	Must   bool         // OpRecordEvent
}
