package plan

import (
	"encoding/binary"
	"fmt"
	"math"

	"stalloc/internal/mem"
)

// reader takes numbers off a payload. The first failure sticks: everything
// read behind it is zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.rest = nil
}

// number reads an unsigned varint of at most limit.
func (r *reader) number(what string, limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit {
		r.fail("%s: expected a number up to %d", what, limit)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads how many items follow, each of at least size bytes, so that a
// wrong count cannot ask for more memory than the file could fill.
func (r *reader) count(what string, size int) int {
	n := r.number("number of "+what, math.MaxInt32)
	if most := uint64(len(r.rest) / size); n > most {
		r.fail("number of %s: %d, expected at most %d in what is left of the file", what, n, most)
		return 0
	}
	return int(n)
}

func (r *reader) word(what string) uint64 {
	if len(r.rest) < 8 {
		r.fail("%s: expected 8 bytes, found %d", what, len(r.rest))
		return 0
	}
	n := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return n
}

func (r *reader) entry() Entry {
	n, size := binary.Varint(r.rest)
	if size <= 0 || n != int64(int32(n)) {
		r.fail("tape entry: expected a number of 32 bits")
		return 0
	}
	r.rest = r.rest[size:]
	return Entry(n)
}

func decodePayload(payload []byte) (*Plan, error) {
	r := &reader{rest: payload}
	p := &Plan{Key: r.word("key")}
	p.Late.Requests = int(r.number("requests before the valley", math.MaxInt32))
	p.Late.Drop = mem.Bytes(r.number("depth of the valley", math.MaxInt64/uint64(mem.Grain))) * mem.Grain
	if n := r.count("streams", 40); n > 0 {
		p.Streams = make([]Stream, n)
	}
	for i := range p.Streams {
		r.stream(&p.Streams[i])
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes follow the last stream", len(r.rest))
	}
	return p, r.err
}

func (r *reader) stream(s *Stream) {
	const grains = uint64(maxArena / mem.Grain)
	s.Ordinal = int(r.number("ordinal", math.MaxInt32))
	s.Arena = mem.Bytes(r.number("arena", uint64(maxArena/mem.HandleSize))) * mem.HandleSize
	s.LowerBound = mem.Bytes(r.number("lower bound", grains)) * mem.Grain
	s.Makespan = mem.Bytes(r.number("makespan", grains)) * mem.Grain
	name := r.count("letters of the order", 1)
	s.Order = string(r.rest[:name])
	r.rest = r.rest[name:]
	w := &s.Weights
	for _, f := range []*float64{&w.Size, &w.Duration, &w.Load, &w.Lower, &w.Upper} {
		*f = math.Float64frombits(r.word("weight"))
	}
	flags := r.number("flags of the priority", 3)
	w.Mirror, w.Fit = flags&1 == 1, flags&2 == 2
	if n := r.count("slots", 2); n > 0 {
		s.Slots = make([]Slot, n)
	}
	for i := range s.Slots {
		size := r.number("slot size", grains<<3|7)
		s.Slots[i] = Slot{
			Size:    mem.Bytes(size>>3) * mem.Grain,
			Pool:    size&2 == 2,
			Persist: size&1 == 1,
			Offset:  mem.Offset(r.number("slot offset", grains)) * mem.Offset(mem.Grain),
		}
		if size&4 == 4 {
			s.Slots[i].Spread = mem.Bytes(r.number("spread of a slot", grains)) * mem.Grain
		}
	}
	if n := r.count("tapes", 3); n > 0 {
		s.Tapes = make([]Tape, n)
	}
	for i := range s.Tapes {
		s.Tapes[i].Kind = TapeKind(r.number("tape kind", math.MaxUint8))
		s.Tapes[i].Boundaries = int(r.number("boundaries of a tape", maxBoundaries))
		if n := r.count("tape entries", 1); n > 0 {
			s.Tapes[i].Entries = make([]Entry, n)
		}
		for k := range s.Tapes[i].Entries {
			s.Tapes[i].Entries[k] = r.entry()
		}
	}
}
