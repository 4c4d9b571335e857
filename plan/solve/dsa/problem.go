package dsa

import (
	"fmt"

	"stalloc/internal/mem"
	"stalloc/plan/descent"
)

// Buffer is Size bytes that stay at one offset during [Lower, Upper). One with an empty life or
// no size takes no memory and may lie anywhere.
type Buffer = descent.Buffer

// Problem asks for an offset of every buffer, so that no two share a byte while both live.
type Problem struct {
	Buffers  []Buffer
	Gaps     []Gap       // in any order; those of one buffer do not overlap
	Pins     []Pin       // at most one a buffer
	Align    []mem.Bytes // by buffer: its offset is a multiple; nil: of 1
	Capacity mem.Bytes   // every buffer ends below it; 0: as low as may be
}

// Gap is a time [Lower, Upper) of a buffer's life in which it takes only its bytes [From, To), or
// none where they are equal.
type Gap struct {
	Buffer       int
	Lower, Upper mem.Tick
	From, To     mem.Bytes
}

// Pin says where a buffer lies.
type Pin struct {
	Buffer int
	At     mem.Offset
}

const (
	// mostBuffers is what a rank has bits for; see descent.Ranker.
	mostBuffers = 1 << 24
	// mostBytes bounds the sum of all sizes and alignments, and every pin: no sum overflows.
	mostBytes = 1 << 60
)

// WrongBuffer is a buffer that makes no problem, and why.
type WrongBuffer struct {
	Buffer int
	Why    string
}

func (w *WrongBuffer) Error() string { return fmt.Sprintf("buffer %d: %s", w.Buffer, w.Why) }

func wrong(buffer int, format string, args ...any) error {
	return &WrongBuffer{buffer, fmt.Sprintf(format, args...)}
}

// Validate reports the first thing that makes no problem.
func (p *Problem) Validate() error {
	if len(p.Buffers) >= mostBuffers {
		return fmt.Errorf("%d buffers, expected fewer than %d: split the problem where nothing lives", len(p.Buffers), mostBuffers)
	}
	if p.Capacity < 0 {
		return fmt.Errorf("a capacity of %d bytes, expected some, or 0 for the least",
			int64(p.Capacity))
	}
	if p.Align != nil && len(p.Align) != len(p.Buffers) {
		return fmt.Errorf("%d alignments for %d buffers, expected one each, or none", len(p.Align),
			len(p.Buffers))
	}
	sum := mem.Bytes(0)
	for i, b := range p.Buffers {
		align := p.align(i)
		switch {
		case b.Size < 0 || b.Size > mostBytes || b.Lower > b.Upper:
			return wrong(i, "%d bytes in [%d, %d): expected a size of 0 to 2^60, and a life that ends after its start", int64(b.Size), b.Lower, b.Upper)
		case align < 1 || align > mostBytes:
			return wrong(i, "an alignment of %d, expected 1 to 2^60", int64(align))
		}
		if sum += b.Size + align - 1; sum > mostBytes {
			return wrong(i, "up to here sizes and alignments add up to more than 2^60: count in larger units")
		}
	}
	if err := p.validateGaps(); err != nil {
		return err
	}
	return p.validatePins()
}

func (p *Problem) validateGaps() error {
	for i, g := range p.Gaps {
		if g.Buffer < 0 || g.Buffer >= len(p.Buffers) {
			return fmt.Errorf("gap %d is one of buffer %d, of %d", i, g.Buffer, len(p.Buffers))
		}
		b := p.Buffers[g.Buffer]
		if g.Lower > g.Upper || g.Lower < b.Lower || g.Upper > b.Upper || g.From < 0 ||
			g.From > g.To || g.To > b.Size {
			return wrong(g.Buffer,
				"%d bytes in [%d, %d) have a gap in [%d, %d) that leaves [%d, %d): expected parts of them",
				int64(b.Size), b.Lower, b.Upper, g.Lower, g.Upper, int64(g.From), int64(g.To))
		}
	}
	gaps := p.sortedGaps()
	for i := 1; i < len(gaps); i++ {
		if a, b := gaps[i-1], gaps[i]; a.Buffer == b.Buffer && b.Lower < a.Upper {
			return wrong(a.Buffer, "two gaps overlap, [%d, %d) and [%d, %d): make them one",
				a.Lower, a.Upper, b.Lower, b.Upper)
		}
	}
	return nil
}

func (p *Problem) validatePins() error {
	pinned := map[int]bool{}
	for i, pin := range p.Pins {
		switch {
		case pin.Buffer < 0 || pin.Buffer >= len(p.Buffers):
			return fmt.Errorf("pin %d is one of buffer %d, of %d", i, pin.Buffer, len(p.Buffers))
		case pinned[pin.Buffer]:
			return wrong(pin.Buffer, "it is pinned twice: once is enough")
		case pin.At < 0 || pin.At > mostBytes || mem.Bytes(pin.At)%p.align(pin.Buffer) != 0:
			return wrong(pin.Buffer, "it is pinned at %d, expected a multiple of %d from 0 to 2^60",
				int64(pin.At), int64(p.align(pin.Buffer)))
		}
		pinned[pin.Buffer] = true
	}
	return nil
}

func (p *Problem) align(buffer int) mem.Bytes {
	if p.Align == nil {
		return 1
	}
	return p.Align[buffer]
}
