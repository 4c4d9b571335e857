package device

import (
	"fmt"
	"sync"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Limit wraps a device and caps the memory taken through it: the share of a
// process, or a small device for a test. A handle counts until it is both
// released and unmapped, a plain block as its rounded size.
type Limit struct {
	around
	capacity mem.Bytes

	// Held from before to after each call that takes or gives memory: an
	// address given back could otherwise be handed out again before it is
	// crossed out here.
	mu     sync.Mutex
	used   mem.Bytes
	uses   map[driver.Handle]handleUse
	mapped map[mem.Addr]driver.Handle // by where a mapping begins
	plain  map[mem.Addr]mem.Bytes
}

type handleUse struct {
	size mem.Bytes
	n    int // 1 while held, + its mappings
}

// NewLimit lets at most capacity bytes be taken from d.
func NewLimit(d Device, capacity mem.Bytes) *Limit {
	l := &Limit{
		capacity: capacity,
		uses:     map[driver.Handle]handleUse{},
		mapped:   map[mem.Addr]driver.Handle{},
		plain:    map[mem.Addr]mem.Bytes{},
	}
	l.around = around{d, l}
	return l
}

// Memory returns what is left of the limit or of the device, whichever is less.
func (l *Limit) Memory() (free, total mem.Bytes, err error) {
	free, total, err = l.around.Memory()
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(free, l.capacity-l.used), min(total, l.capacity), err
}

// changes are the calls that take memory or give it back.
var changes = [Kinds]bool{CallCreate: true, CallRelease: true, CallMap: true, CallUnmap: true, CallMalloc: true, CallFree: true}

func (l *Limit) before(c *Call) error {
	if !changes[c.Kind] {
		return nil
	}
	l.mu.Lock() // until after
	var need mem.Bytes
	switch c.Kind {
	case CallCreate:
		need = c.Size
	case CallMalloc:
		need = mem.Round(c.Size)
	}
	if need <= l.capacity-l.used {
		return nil
	}
	return fmt.Errorf("%w: %v of a limit of %v in use, %v asked for", &driver.Error{
		Call: c.Kind.Driver(), Code: driver.CodeOutOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY",
	}, l.used, l.capacity, need)
}

func (l *Limit) after(c *Call) {
	if !changes[c.Kind] {
		return
	}
	defer l.mu.Unlock()
	if c.Err != nil {
		return
	}
	switch c.Kind {
	case CallCreate:
		l.used += c.Size
		l.uses[c.Handle] = handleUse{c.Size, 1}
	case CallMap:
		if u, known := l.uses[c.Handle]; known {
			l.uses[c.Handle] = handleUse{u.size, u.n + 1}
			l.mapped[c.Addr] = c.Handle
		}
	case CallRelease:
		l.drop(c.Handle)
	case CallUnmap:
		for at, end := c.Addr, c.Addr+mem.Addr(c.Size); at < end; at += mem.Addr(mem.HandleSize) {
			if h, begins := l.mapped[at]; begins {
				l.drop(h)
				delete(l.mapped, at)
			}
		}
	case CallMalloc:
		l.plain[c.Addr] = mem.Round(c.Size)
		l.used += mem.Round(c.Size)
	case CallFree:
		l.used -= l.plain[c.Addr]
		delete(l.plain, c.Addr)
	}
}

// drop ends one use of a handle; one from before the limit is not counted.
func (l *Limit) drop(h driver.Handle) {
	u, known := l.uses[h]
	switch {
	case !known:
	case u.n == 1:
		delete(l.uses, h)
		l.used -= u.size
	default:
		l.uses[h] = handleUse{u.size, u.n - 1}
	}
}
