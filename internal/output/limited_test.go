package output

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// beyond is set in the process that writes beyond the limit: it lowers its own.
const beyond = "STALLOC_TEST_BEYOND"

// TestBeyondLimit: a write beyond the limit of file sizes is an error, and no signal ends the
// process.
func TestBeyondLimit(t *testing.T) {
	dir := os.Getenv(beyond)
	if dir == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBeyondLimit$", "-test.v")
		cmd.Env = append(os.Environ(), beyond+"="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 4
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a")
	if err := Write(path, 0o600, text("four")); err != nil {
		t.Error(err)
	}
	err := Write(path, 0o600, text("four and more"))
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "ulimit -f") ||
		names(t, dir) != 1 {
		t.Errorf("%v, %d files", err, names(t, dir))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Limited{f}).WriteAt([]byte("x"), 4); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
	if _, err := (Limited{f}).WriteAt([]byte("x"), 3); err != nil {
		t.Error(err)
	}
	limit.Cur = limit.Max
	if err := errors.Join(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit), f.Close()); err != nil {
		t.Fatal(err)
	}
	isFile(t, path, "foux", 0o600)
}
