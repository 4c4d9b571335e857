package output

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func isFile(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	got, read := os.ReadFile(path)
	if err != nil || read != nil || string(got) != want || info.Mode() != mode {
		t.Errorf("%s: %q (%v, %v), want %q, %v; %v", path, got, info.Mode(), read, want, mode, err)
	}
}

func names(t *testing.T, dir string) (n int) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestRegular: a new file gets the mode that is asked for, one that is there keeps its own, and a
// write that fails leaves what was there, and nothing else.
func TestRegular(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := Write(path, 0o640, text("one")); err != nil {
		t.Fatal(err)
	}
	isFile(t, path, "one", 0o640)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, 0o644, text("two")); err != nil {
		t.Fatal(err)
	}
	isFile(t, path, "two", 0o600)
	broken := errors.New("broken")
	err := Write(path, 0o644, func(w io.Writer) error {
		return errors.Join(text("thr")(w),
			broken)
	})
	if !errors.Is(err, broken) || names(t, dir) != 1 {
		t.Errorf("%v, %d files", err, names(t, dir))
	}
	isFile(t, path, "two", 0o600)
}

// TestLinks: a link stays one, and what it points to is written, if need be made.
func TestLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, to := range []string{filepath.Join(other, "there"), "../" + filepath.Base(other) +
		"/new"} {
		first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
		for link, to := range map[string]string{first: "second", second: to} {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		if err := Write(first, 0o644, text("it")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(second); got != to || err != nil {
			t.Errorf("the link is %q now, %v", got, err)
		}
		isFile(t, filepath.Join(other, filepath.Base(to)), "it", 0o644)
		if names(t, dir) != 2 {
			t.Errorf("%d files beside the links", names(t, dir))
		}
		os.Remove(first)
		os.Remove(second)
	}
}

// TestInPlace: a pipe stays one and gets all of it; one that nobody reads from is an error at
// once, and so is what cannot be written at all.
func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe, 0o644); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("a pipe without a reader: %v", err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := Write(pipe, 0o644, text("through")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 16)
	if n, _ := reader.Read(got); string(got[:n]) != "through" {
		t.Errorf("read %q", got[:n])
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", info, err)
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "none", "x"),
		filepath.Join(pipe, "x")} {
		if f, err := Open(path, 0o644); err == nil {
			f.Close()
			t.Errorf("%q was opened", path)
		}
	}
	if names(t, dir) != 1 {
		t.Errorf("%d files, want the pipe alone", names(t, dir))
	}
}

// TestDevice: a device node stays one.
func TestDevice(t *testing.T) {
	node := filepath.Join(t.TempDir(), "full")
	if err := syscall.Mknod(node, syscall.S_IFCHR|0o600, 1<<8|7); err != nil {
		t.Skip("no device can be made here:", err)
	}
	before, _ := os.Lstat(node)
	if err := Write(node, 0o644, text("lost")); err != nil && !errors.Is(err, syscall.ENOSPC) &&
		!errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	} else if err == nil {
		t.Error("a full device took it")
	}
	if after, err := os.Lstat(node); err != nil || !os.SameFile(before, after) {
		t.Errorf("the device is %v now, %v", after, err)
	}
}

// TestTo: what goes elsewhere is not closed.
func TestTo(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := To(w)
	if _, err := io.WriteString(f, "a"); err != nil || f.Commit() != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := w.WriteString("b"); err != nil {
		t.Error(err)
	}
	w.Close()
	if all, _ := io.ReadAll(r); string(all) != "ab" {
		t.Errorf("%q", all)
	}
}
