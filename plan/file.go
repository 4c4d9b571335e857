package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
)

// A plan file is a line that names the format and its version, and behind it a gob of the
// Plan, compressed by gzip, whose checksum says that it is whole.
const (
	fileMagic = "STALLOCP"
	fileHead  = fileMagic + " 7\n"
	// maxFile is many times what the plan of a step of a million requests takes, compressed or
	// not.
	maxFile = 64 << 20
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
	out := bytes.NewBufferString(fileHead)
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err := errors.Join(gob.NewEncoder(z).Encode(p), z.Close()); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("plan: writing: %w", err)
	}
	return nil
}

// Decode reads a plan and validates it. name is used in errors, which wrap one
// of the Err values above, or the error of r.
func Decode(r io.Reader, name string) (*Plan, error) {
	file, err := io.ReadAll(io.LimitReader(r, maxFile))
	p := &Plan{}
	if err == nil {
		err = p.decode(file)
	}
	if err != nil {
		return nil, fmt.Errorf("plan file %s: %w", name, err)
	}
	return p, nil
}

func (p *Plan) decode(file []byte) error {
	const remedy = "delete it and a new one will be written"
	head := file[:min(len(file), len(fileHead))]
	what := ErrVersion
	if !bytes.HasPrefix(head, []byte(fileMagic)) {
		what = ErrForeign
	}
	if string(head) != fileHead {
		return fmt.Errorf("%w: it starts with %q, expected %q; %s", what, head, fileHead, remedy)
	}
	var payload []byte
	z, err := gzip.NewReader(bytes.NewReader(file[len(head):]))
	if err == nil {
		payload, err = io.ReadAll(io.LimitReader(z, maxFile))
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(payload)).Decode(p)
	}
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return fmt.Errorf("%w: %w; %s", ErrCorrupt, err, remedy)
	}
	return nil
}
