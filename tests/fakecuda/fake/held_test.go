//go:build cgo

package fake

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeld: handle values come again, and work passes when it is told to, or ends the process if
// its memory is gone by then.
func TestHeld(t *testing.T) {
	folder := t.TempDir()
	library, err := Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "held")
	args := []string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o", program,
		filepath.Join("testdata", "held.c"), library, "-Wl,-rpath," + folder}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for argument, end := range map[string]string{"": "held",
		"unmapped": "work uses memory that the device has not"} {
		run := exec.Command(program, argument)
		run.Env = append(run.Environ(), "FAKECUDA_HELD=1", "FAKECUDA_REUSE_HANDLES=1",
			"FAKECUDA_POISON=0")
		out, err := run.CombinedOutput()
		if (err == nil) != (argument == "") || !strings.Contains(string(out), end) {
			t.Errorf("%q: %v\n%s", argument, err, out)
		}
	}
}
