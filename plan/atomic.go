package plan

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile writes the plan to path so that a reader, or a crash at any time,
// meets either the old file or the new one, whole: a temporary file in the same
// folder, synced, then renamed. Many writers may race; one of them wins.
func WriteFile(path string, p *Plan) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("plan file %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("plan file %s: %w", path, err)
		}
	}()
	if err := p.Encode(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in the folder durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ReadFile reads and validates the plan at path.
func ReadFile(path string) (*Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("plan file %s: %w", path, err)
	}
	defer f.Close()
	return Decode(f, path)
}
