package gmlake

import "stalloc/internal/mem"

// Config says where the addresses lie, and holds the parameters of the released
// code. Start from DefaultConfig.
type Config struct {
	Base   mem.Addr  // start of the reserved address window, a multiple of 2 MiB
	Window mem.Bytes // its size: at least 64 MiB, at most 4 TiB
	Limit  mem.Bytes // most physical memory to create; 0: what the device gives

	FragLimit mem.Bytes // fragLimit: smaller requests are never stitched
	// defragLevel: 0 stitches before new memory, 1 once that failed, 2 after the flush
	DefragLevel int
	ReuseLimit  float64   // reuseLimit: an sBlock serves n bytes if it has at most so many times n
	AutoGC      mem.Bytes // autoGC: the most addresses in sBlocks; 0: no bound
}

// DefaultConfig returns the released code's own defaults.
func DefaultConfig() Config {
	return Config{
		Base:       1 << 40,
		Window:     maxWindow,
		FragLimit:  512 * mem.MiB,
		ReuseLimit: 10,
		AutoGC:     1000 * mem.GiB,
	}
}

const (
	maxWindow = 4 * mem.TiB

	smallLimit  = 1 * mem.MiB  // rounded sizes up to this belong to the small pool
	segmentBig  = 10 * mem.MiB // from here on a segment has the size of its request
	segmentMost = 20 * mem.MiB // a segment for less
)

// withDefaults repairs values that no pool can work with: it has nobody to report
// them to, and its callers read them from a checked configuration.
func (c Config) withDefaults() Config {
	if c.Window <= 0 || c.Window > maxWindow {
		c.Window = maxWindow
	}
	c.Window = max(c.Window&^(mem.HandleSize-1), 64*mem.MiB)
	c.Base = (c.Base + mem.Addr(mem.HandleSize) - 1) &^ (mem.Addr(mem.HandleSize) - 1)
	c.FragLimit = max(c.FragLimit, 0)
	c.DefragLevel = min(max(c.DefragLevel, 0), 2)
	c.ReuseLimit = max(c.ReuseLimit, 1)
	return c
}
