// Package output writes the files that a user has named.
//
//	f, err := output.Open("run.plan", 0o644) // before the work: says so if it cannot be written
//	defer f.Close()
//	... f.Write(...)
//	err = f.Commit()
//
// Where a regular file is, or nothing, a reader and a crash at any time meet the old file or the
// new one, whole: it is made beside its place and renamed. Anything else that a name stands for, a
// device or a pipe, is written to as it is: a rename would replace it. Links are followed.
package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is one that is being written.
type File struct {
	io.Writer
	file   *os.File // nil: it is over, or not ours to close
	rename string   // where it goes once it is whole; empty: it is there already
}

// To is what goes to w.
func To(w io.Writer) *File { return &File{Writer: w} }

// Open begins the file at path; a new one gets the mode, one that is there keeps its own. It does
// not wait for the reader of a pipe.
func Open(path string, mode fs.FileMode) (*File, error) {
	place, there, err := follow(path)
	switch {
	case err != nil:
	case path == "":
		err = &fs.PathError{Op: "write", Path: path, Err: syscall.ENOENT}
	case there == nil:
		return beside(place, func(f *os.File) error { return f.Chmod(mode) })
	case there.IsDir():
		err = &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case place != "":
		return beside(place, func(f *os.File) error {
			if s, ok := there.Sys().(*syscall.Stat_t); ok {
				_ = f.Chown(int(s.Uid), int(s.Gid)) // who may not stays the owner
			}
			return f.Chmod(there.Mode().Perm())
		})
	default:
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK, 0); errors.Is(err,
			syscall.ENXIO) {
			err = fmt.Errorf("%w: nobody reads from the pipe", err)
		}
		if err == nil {
			return &File{Limited{f}, f, ""}, nil
		}
	}
	return nil, err
}

// follow returns what is at path, nil for nothing, and the place to rename to; an empty one where
// nothing may be renamed.
func follow(path string) (place string, there fs.FileInfo, err error) {
	there, err = os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !there.Mode().IsRegular() {
		return "", there, err
	}
	place = path
	for range 40 {
		to, err := os.Readlink(place)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) { // not cleaned: ".." behind a link is the kernel's to follow
			to = filepath.Dir(place) + string(filepath.Separator) + to
		}
		place = to
	}
	if there == nil {
		return place, nil, nil
	}
	if _, err := os.Lstat(place); place != path && errors.Is(err, fs.ErrNotExist) {
		place = "" // a link of /proc to a file without a name
	}
	return place, there, nil
}

// beside makes a file in the folder of its later place.
func beside(place string, prepare func(*os.File) error) (*File, error) {
	base := filepath.Base(place)
	f, err := os.CreateTemp(filepath.Dir(place), "."+base[:min(len(base), 200)]+".*")
	if err != nil {
		return nil, fmt.Errorf("no file can be made in the folder %s: %w", filepath.Dir(place),
			errors.Unwrap(err))
	}
	if err := prepare(f); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &File{Limited{f}, f, place}, nil
}

// Commit ends the file, which is in its place then.
func (f *File) Commit() error {
	if f.rename != "" {
		err := f.file.Sync()
		if err == nil {
			err = os.Rename(f.file.Name(), f.rename)
		}
		if err != nil {
			return err
		}
	}
	file := f.file
	if f.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// Close gives the file up unless it was committed; what was there before stays.
func (f *File) Close() {
	if f.file == nil {
		return
	}
	f.file.Close()
	if f.rename != "" {
		os.Remove(f.file.Name())
	}
	f.file = nil
}

// Write makes what write writes the content of the file at path.
func Write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := Open(path, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}
