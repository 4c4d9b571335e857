package residency

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"stalloc/internal/mem"
)

// Nanos is a time, or a duration, in nanoseconds.
type Nanos int64

// Item is memory that is idle from one moment on until it is needed at another. Outside of that
// time it is part of the load. An item that is never idle stays.
type Item struct {
	Size       mem.Bytes
	Idle, Need Nanos
	Parts      bool // it may leave and come back in parts
}

// Load is how much everything else takes from a moment on, until the next of a curve.
type Load struct {
	From  Nanos
	Bytes mem.Bytes
}

// Link is how many bytes a second each direction carries. Both are used at once.
type Link struct{ Out, Back int64 }

// Problem is a step: its items, what else it holds, and what it has to fit in.
type Problem struct {
	Items  []Item
	Load   []Load // in the order of time; before the first nothing is held
	Limit  mem.Bytes
	Link   Link
	Handle mem.Bytes // nothing smaller moves, and parts are no smaller
}

// Move is an item, or a part of it, that leaves and comes back. Its memory is free from OutUntil
// to BackFrom.
type Move struct {
	Item                                   int
	Offset, Size                           mem.Bytes
	OutFrom, OutUntil, BackFrom, BackUntil Nanos
}

// Wait is how long the program stands still before what it does at a moment of its own time.
type Wait struct{ At, For Nanos }

// Plan is what leaves and comes back. Its times include the waits.
type Plan struct {
	Moves []Move // in the order in which they leave
	Waits []Wait // in the order of time
	Wait  Nanos  // all of them
	Peak  mem.Bytes
	Left  mem.Bytes // how much leaves
	Over  mem.Bytes // by how much it does not fit; then there are no moves
}

// What a problem may hold, so that no sum overflows.
const (
	mostBytes = mem.Bytes(1) << 60
	mostTime  = Nanos(1) << 60
)

// Check says what is wrong with a problem, and what to do about it.
func (p *Problem) Check() error {
	if p.Handle < 1 {
		return fmt.Errorf("a least handle of %d bytes: give one of 1 or more", p.Handle)
	}
	if p.Link.Out < 1 || p.Link.Back < 1 {
		return fmt.Errorf("a link of %d bytes a second out and %d back: both must be 1 or more",
			p.Link.Out, p.Link.Back)
	}
	if !slices.IsSortedFunc(p.Load, func(a, b Load) int { return cmp.Compare(a.From, b.From) }) {
		return errors.New("the load's times go back: sort them")
	}
	all, out, back := mem.Bytes(0), Nanos(0), Nanos(0)
	for i, l := range p.Load {
		if l.Bytes < 0 || l.Bytes > mostBytes || l.From < -mostTime || l.From > mostTime {
			return fmt.Errorf("load %d is %d bytes at %d ns: both must be below 2^60", i, l.Bytes,
				l.From)
		}
	}
	for i, it := range p.Items {
		if it.Size < 0 || it.Size > mostBytes-all {
			return fmt.Errorf("item %d has %d bytes: sizes must be positive, their sum below 2^60",
				i, it.Size)
		}
		if min(it.Idle, it.Need) < -mostTime || max(it.Idle, it.Need) > mostTime {
			return fmt.Errorf("item %d is idle from %d to %d ns: times must be below 2^60", i,
				it.Idle, it.Need)
		}
		all += it.Size
		out, back = out+duration(it.Size, p.Link.Out), back+duration(it.Size, p.Link.Back)
		if out > mostTime || back > mostTime {
			return fmt.Errorf("a link of %d bytes a second out and %d back takes years for %v: name its rate in bytes a second", p.Link.Out, p.Link.Back, all)
		}
	}
	return nil
}

// duration is how long a copy takes, rounded up.
func duration(size mem.Bytes, rate int64) Nanos { return ratio(size, rate, uint64(rate-1)) }

// ratio is the time of size bytes at a rate, after so much is added to the product of size and
// 1e9, rounded down. More than mostTime is mostTime and one.
func ratio(size mem.Bytes, rate int64, added uint64) Nanos {
	hi, lo := bits.Mul64(uint64(size), 1e9)
	lo, carry := bits.Add64(lo, added, 0)
	hi += carry
	if hi >= uint64(rate) {
		return mostTime + 1
	}
	q, _ := bits.Div64(hi, lo, uint64(rate))
	return Nanos(min(q, uint64(mostTime)+1))
}
