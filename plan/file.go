package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A plan file is a line that names the format and its version, and the Plan as JSON.
//
// A file may come from anywhere, and may be damaged. What is read is a valid Plan or none, and a
// Plan binds nobody: a wrong one costs a few good places.
const (
	fileMagic = "STALLOCP"
	fileHead  = fileMagic + " 10\n"
	// maxFile is more than a valid Plan takes.
	maxFile = 96 << 20
	// maxCommas and maxObjects are how many a valid Plan has at most: so many values are made of a
	// file.
	maxCommas  = 4 * (maxRequests + maxSteps)
	maxObjects = maxRequests + maxSteps + 1
)

// What can be wrong with a plan file. The remedy is always the same: have it written anew.
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
	b, err := json.Marshal(p)
	if err == nil {
		_, err = w.Write(append([]byte(fileHead), b...))
	}
	if err != nil {
		return fmt.Errorf("plan: writing: %w", err)
	}
	return nil
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
	p, err, body := &Plan{}, errors.New("no plan is so large"), file[len(head):]
	if len(file) <= maxFile && bytes.Count(body, []byte{','}) <= maxCommas &&
		bytes.Count(body, []byte{'{'}) <= maxObjects {
		if err = json.Unmarshal(body, p); err == nil {
			err = p.Validate()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; %s", ErrCorrupt, err, remedy)
	}
	return p, nil
}
