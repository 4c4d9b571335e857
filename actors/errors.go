package actors

import (
	"stalloc/actors/pool"
	"stalloc/actors/region"
)

// What a device may answer, besides driver.ErrOutOfMemory.
var (
	ErrUnknown  = pool.ErrUnknown   // an address is no live block
	ErrBroken   = pool.ErrBroken    // the pool lost track of its state and serves nothing more
	ErrRetired  = pool.ErrRetired   // the device was closed
	ErrAsleep   = pool.ErrAsleep    // this memory sleeps
	ErrNoRegion = region.ErrUnknown // a tag is no region's name
)
