package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"stalloc/internal/mem"
)

// A plan file is a line that names the format and its version, the Plan as numbers of variable
// length, each list behind its length, and a checksum of all that, which says that it is whole.
//
// A file may come from anywhere. No length is believed that the bytes behind it do not bear out,
// and nothing is compressed: a Plan takes at most 12 times what its file has.
const (
	fileMagic = "STALLOCP"
	fileHead  = fileMagic + " 9\n"
	checksum  = 4 // bytes
	// maxFile is what maxRequests take at most.
	maxFile = 32 << 20
	// The fewest bytes that a request and a step take in a file; they take 40 and 48 in a Plan.
	leastRequest, leastStep = 5, 4
)

// What can be wrong with a plan file. The remedy is always the same: delete it
// and let the next run write a new one.
var (
	ErrForeign = errors.New("not a plan file")
	ErrVersion = errors.New("written by another version")
	ErrCorrupt = errors.New("corrupt or cut off")
)

// Encode writes the plan. It refuses a plan that does not validate, so that
// every file written can be read. Errors of w are wrapped.
func (p *Plan) Encode(w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	b := p.append([]byte(fileHead))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	if len(b) > maxFile {
		return fmt.Errorf("plan: its file would have %d bytes, expected at most %d", len(b),
			maxFile)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("plan: writing: %w", err)
	}
	return nil
}

func (p *Plan) append(b []byte) []byte {
	b = binary.AppendVarint(b, int64(len(p.Steps)))
	for i := range p.Steps {
		s := &p.Steps[i]
		small := int64(0)
		if s.Small {
			small = 1
		}
		for _, n := range []int64{int64(s.Stream), small, int64(s.Hold), int64(len(s.Requests))} {
			b = binary.AppendVarint(b, n)
		}
		last := mem.Tick(0)
		for _, r := range s.Requests {
			for _, n := range []int64{int64(r.Size / mem.Grain), int64(r.From - last),
				span(r.From, r.Free), span(r.Free, r.Done), int64(r.At) / int64(mem.Grain)} {
				b = binary.AppendVarint(b, n)
			}
			last = r.From
		}
	}
	return b
}

// span is how a file tells when something ended.
func span(from, to mem.Tick) int64 {
	if to == Never {
		return int64(Never)
	}
	return int64(to - from)
}

// Decode reads a plan and validates it. name is used in errors, which wrap one
// of the Err values above, or the error of r.
func Decode(r io.Reader, name string) (*Plan, error) {
	file, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	var p *Plan
	if err == nil {
		p, err = decode(file)
	}
	if err != nil {
		return nil, fmt.Errorf("plan file %s: %w", name, err)
	}
	return p, nil
}

func decode(file []byte) (*Plan, error) {
	const remedy = "have it written anew, by a run or by stalloc plan -o"
	head := file[:min(len(file), len(fileHead))]
	what := ErrVersion
	if !bytes.HasPrefix(head, []byte(fileMagic)) {
		what = ErrForeign
	}
	if string(head) != fileHead {
		return nil, fmt.Errorf("%w: it starts with %q, expected %q; %s", what, head, fileHead,
			remedy)
	}
	p, err := &Plan{}, errors.New("its checksum is wrong")
	if end := len(file) - checksum; end >= len(head) && len(file) <= maxFile &&
		crc32.ChecksumIEEE(file[:end]) == binary.LittleEndian.Uint32(file[end:]) {
		r := fileReader{left: file[len(head):end]}
		if r.plan(p); len(r.left) > 0 {
			r.bad = true
		}
		if err = p.Validate(); r.bad {
			err = errors.New("its lists do not have the lengths that it says, or no plan has so many")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; %s", ErrCorrupt, err, remedy)
	}
	return p, nil
}

// fileReader reads numbers. Once it is bad, all are zero.
type fileReader struct {
	left      []byte
	requested int // so far
	bad       bool
}

// took takes in how many bytes a number had; none or fewer: it is none.
func (r *fileReader) took(n int) {
	if n <= 0 {
		r.bad, n = true, len(r.left)
	}
	r.left = r.left[n:]
}

func (r *fileReader) number() int64 {
	v, n := binary.Varint(r.left)
	r.took(n)
	return v
}

// count reads the length of a list of so many elements at most, of so many bytes at least.
func (r *fileReader) count(most, least int) int {
	n := r.number()
	if n < 0 || n > int64(min(most, len(r.left)/least)) {
		r.took(0)
		return 0
	}
	return int(n)
}

func (r *fileReader) plan(p *Plan) {
	if n := r.count(maxSteps, leastStep); n > 0 {
		p.Steps = make([]Step, n)
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Stream, s.Small, s.Hold = int(r.number()), r.number() != 0, mem.Bytes(r.number())
		s.Requests = r.list()
	}
}

func (r *fileReader) list() []Request {
	n := r.count(maxRequests-r.requested, leastRequest)
	if n == 0 {
		return nil
	}
	r.requested += n
	list := make([]Request, n)
	last := mem.Tick(0)
	for i := range list {
		size, from := r.bytes(r.number()), last+mem.Tick(r.number())
		free := r.end(from)
		done := r.end(free)
		list[i] = Request{mem.Bytes(size), from, free, done, mem.Offset(r.bytes(r.number()))}
		last = from
	}
	return list
}

// end reads when something ended that began at a tick. What is no sum is refused as invalid.
func (r *fileReader) end(from mem.Tick) mem.Tick {
	n := mem.Tick(r.number())
	if n == Never || from == Never {
		return Never
	}
	return from + n
}

// bytes returns so many grains in bytes.
func (r *fileReader) bytes(grains int64) int64 {
	if grains < 0 || grains > math.MaxInt64/int64(mem.Grain) {
		r.took(0)
		return 0
	}
	return grains * int64(mem.Grain)
}
