package plan

import (
	"fmt"
	"os"
	"syscall"

	"stalloc/internal/output"
)

// WriteFile writes the plan to path so that a reader, or a crash at any time,
// meets either the old file or the new one, whole. Many writers may race; one of
// them wins.
func WriteFile(path string, p *Plan) error {
	if err := output.Write(path, 0o644, p.Encode); err != nil {
		return fmt.Errorf("plan file %s: %w", path, err)
	}
	return nil
}

// ReadFile reads and validates the plan at path. It waits for no writer of a pipe, and reads
// nothing that is too large for a plan.
func ReadFile(path string) (*Plan, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("plan file %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("it is no regular file but %v", info.Mode())
	case info.Size() > maxFile:
		err = fmt.Errorf("%w: it has %d bytes, expected at most %d", ErrCorrupt, info.Size(),
			maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("plan file %s: %w", path, err)
	}
	return Decode(f, path)
}
