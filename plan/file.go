package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A plan file is a header, a payload and a checksum:
//
//	magic "STALLOCP" · version uint32 · length of the payload uint64
//	payload: varints, sizes and offsets in units of mem.Grain
//	CRC-32C of everything before it, uint32
//
// Fixed-width numbers are little endian.
const (
	fileMagic   = "STALLOCP"
	fileVersion = 6
	headerSize  = len(fileMagic) + 4 + 8
	// maxPayload is many times what the plan of a step of a million requests takes.
	maxPayload = 64 << 20
)

// What can be wrong with a plan file. The remedy is always the same: delete it
// and let the next run write a new one.
var (
	ErrForeign   = errors.New("not a plan file")
	ErrVersion   = errors.New("written by another version")
	ErrTruncated = errors.New("truncated")
	ErrCorrupt   = errors.New("corrupt")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode writes the plan. It refuses a plan that does not validate, so that
// every file written can be read. Errors of w are wrapped.
func (p *Plan) Encode(w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	payload := p.appendPayload(nil)
	if len(payload) > maxPayload {
		return fmt.Errorf("plan: it takes %d bytes, expected at most %d", len(payload), maxPayload)
	}
	out := make([]byte, 0, headerSize+len(payload)+4)
	out = append(out, fileMagic...)
	out = binary.LittleEndian.AppendUint32(out, fileVersion)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(payload)))
	out = append(out, payload...)
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("plan: writing: %w", err)
	}
	return nil
}

// Decode reads a plan and validates it. name is used in errors, which wrap one
// of the Err values above, or the error of r.
func Decode(r io.Reader, name string) (*Plan, error) {
	fail := func(kind error, format string, args ...any) (*Plan, error) {
		return nil, fmt.Errorf("plan file %s: %w: %s; delete it and a new one will be written",
			name, kind, fmt.Sprintf(format, args...))
	}
	header := make([]byte, headerSize)
	n, err := io.ReadFull(r, header)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("plan file %s: %w", name, err)
	}
	if magic := header[:min(n, len(fileMagic))]; len(magic) == 0 || string(magic) != fileMagic[:len(magic)] {
		return fail(ErrForeign, "it starts with %q, expected %q", magic, fileMagic)
	}
	if n < headerSize {
		return fail(ErrTruncated, "it ends after %d bytes, expected a header of %d", n, headerSize)
	}
	if v := binary.LittleEndian.Uint32(header[len(fileMagic):]); v != fileVersion {
		return fail(ErrVersion, "format %d, expected %d", v, fileVersion)
	}
	length := binary.LittleEndian.Uint64(header[len(fileMagic)+4:])
	if length > maxPayload {
		return fail(ErrCorrupt, "a payload of %d bytes is claimed, expected at most %d", length, maxPayload)
	}
	var body bytes.Buffer // grows with what is there, not with what is claimed
	if _, err := io.Copy(&body, io.LimitReader(r, int64(length)+5)); err != nil {
		return nil, fmt.Errorf("plan file %s: %w", name, err)
	}
	if got, want := uint64(body.Len()), length+4; got != want {
		if got > want {
			return fail(ErrCorrupt, "data follows the end at byte %d", want+uint64(headerSize))
		}
		return fail(ErrTruncated, "%d bytes follow the header, expected %d", got, want)
	}
	payload, sum := body.Bytes()[:length], binary.LittleEndian.Uint32(body.Bytes()[length:])
	if got := crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload); got != sum {
		return fail(ErrCorrupt, "checksum %08x, expected %08x", got, sum)
	}
	p, err := decodePayload(payload)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return fail(ErrCorrupt, "%v", err)
	}
	return p, nil
}
