package plan

import (
	"encoding/binary"
	"fmt"

	"stalloc/internal/mem"
)

// The payload, all varints but the key, which is eight bytes:
//
//	key · handle · boundaries · valley: requests, drop · number of spaces
//	each: ordinal·2 + small · hold · first: number, requests · step: number, requests
//	each request: size · distance from the end of the one before, signed;
//	without a wish: size·2 + 1 and no distance, else size·2
func (p *Plan) appendPayload(out []byte) []byte {
	number := func(n int64) { out = binary.AppendUvarint(out, uint64(n)) }
	requests := func(list []Request) {
		number(int64(len(list)))
		last := mem.Offset(0)
		for _, r := range list {
			size := int64(r.Size / mem.Grain)
			if r.At == Nowhere {
				number(size<<1 | 1)
				continue
			}
			number(size << 1)
			out = binary.AppendVarint(out, int64(r.At-last)/int64(mem.Grain))
			last = r.At + mem.Offset(r.Size)
		}
	}
	out = binary.LittleEndian.AppendUint64(out, p.Key)
	number(int64(p.Handle / mem.HandleSize))
	number(int64(p.Boundaries))
	number(int64(p.Late.Requests))
	number(int64(p.Late.Drop / mem.Grain))
	number(int64(len(p.Spaces)))
	for i := range p.Spaces {
		s := &p.Spaces[i]
		small := int64(0)
		if s.Small {
			small = 1
		}
		number(int64(s.Ordinal)<<1 | small)
		number(int64(s.Hold / mem.HandleSize))
		requests(s.First)
		requests(s.Step)
	}
	return out
}

// payload reads one, and keeps the first error.
type payload struct {
	rest []byte
	err  error
}

func (b *payload) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
	b.rest = nil
}

// number reads a number of at most most.
func (b *payload) number(what string, most uint64) int64 {
	n, width := binary.Uvarint(b.rest)
	if width <= 0 || n > most {
		b.fail("the %s is %d or missing, expected at most %d", what, n, most)
		return 0
	}
	b.rest = b.rest[width:]
	return int64(n)
}

// mostGrains bounds sizes and offsets: no device has so much.
const mostGrains = 1 << 40

func (b *payload) requests(what string) []Request {
	n := b.number("number of "+what, uint64(len(b.rest)))
	if n == 0 {
		return nil
	}
	list := make([]Request, 0, n)
	last := int64(0)
	for range n {
		size := b.number("size of a request", mostGrains<<1)
		if size&1 != 0 {
			list = append(list, Request{mem.Bytes(size>>1) * mem.Grain, Nowhere})
			continue
		}
		size >>= 1
		distance, width := binary.Varint(b.rest)
		at := last + distance
		if width <= 0 || distance > mostGrains || distance < -mostGrains || at < 0 || at > mostGrains {
			b.fail("a request lies at %d or nowhere, expected a place from 0 to %d", at, mostGrains)
			return nil
		}
		b.rest = b.rest[width:]
		list = append(list, Request{mem.Bytes(size) * mem.Grain, mem.Offset(at) * mem.Offset(mem.Grain)})
		last = at + size
	}
	return list
}

func decodePayload(in []byte) (*Plan, error) {
	if len(in) < 8 {
		return nil, fmt.Errorf("the payload ends after %d bytes, expected at least 8", len(in))
	}
	p := &Plan{Key: binary.LittleEndian.Uint64(in)}
	b := &payload{rest: in[8:]}
	p.Handle = mem.Bytes(b.number("handle size", mostGrains)) * mem.HandleSize
	p.Boundaries = int(b.number("number of boundaries", maxBoundaries))
	p.Late.Requests = int(b.number("valley's requests", 1<<31))
	p.Late.Drop = mem.Bytes(b.number("valley's drop", mostGrains)) * mem.Grain
	spaces := b.number("number of spaces", uint64(len(b.rest)))
	for range spaces {
		s := Space{}
		ordinal := b.number("ordinal", 1<<32)
		s.Ordinal, s.Small = int(ordinal>>1), ordinal&1 != 0
		s.Hold = mem.Bytes(b.number("hold", mostGrains)) * mem.HandleSize
		s.First = b.requests("first requests")
		s.Step = b.requests("requests of a step")
		p.Spaces = append(p.Spaces, s)
	}
	if b.err == nil && len(b.rest) > 0 {
		b.fail("%d bytes follow its end, expected none", len(b.rest))
	}
	return p, b.err
}
