// Package pagetest has processes with pages, for tests: cshim/lib/page.c itself in a program
// that writes it (testdata/writer.c says what it can be told).
package pagetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"stalloc/live/page"
)

// Names are those of the counters, as C has them.
func Names() []string {
	var names []string
	of := reflect.TypeFor[page.Stats]()
	for i := range of.NumField() {
		names = append(names, of.Field(i).Tag.Get("json"))
	}
	return names
}

// Program builds the writer once for a test binary, and returns its path.
var Program = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	folder, err := os.MkdirTemp("", "page")
	if err != nil {
		return "", err
	}
	var fields strings.Builder
	for _, name := range Names() {
		fmt.Fprintf(&fields, "FIELD(%s);\n", name)
	}
	if err := os.WriteFile(filepath.Join(folder, "fields.h"), []byte(fields.String()),
		0o600); err != nil {
		return "", err
	}
	source := filepath.Join(filepath.Dir(here), "testdata", "writer.c")
	lib := filepath.Join(filepath.Dir(here), "..", "..", "..", "cshim", "lib")
	path := filepath.Join(folder, "writer")
	out, err := exec.Command("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra",
		"-Werror", "-pthread",
		"-I"+folder, "-o", path, source, filepath.Join(lib, "page.c"), filepath.Join(lib,
			"log.c")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
})

// Child is a process that answers each line that it is told with one.
type Child struct {
	*exec.Cmd
	In  io.WriteCloser
	Out *bufio.Scanner
}

// Run starts a process. The test's end ends it.
func Run(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &Child{Cmd: cmd, In: in, Out: bufio.NewScanner(out)}
}

// Line is the next that the process writes.
func (c *Child) Line(t testing.TB) string {
	t.Helper()
	if !c.Out.Scan() {
		t.Fatalf("%s has ended: %v", c.Path, c.Out.Err())
	}
	return c.Out.Text()
}

// Do has the process do something, and returns what it says when that is done.
func (c *Child) Do(t testing.TB, what string) string {
	t.Helper()
	fmt.Fprintln(c.In, what)
	return c.Line(t)
}

// Writer is a process with a page.
type Writer struct {
	*Child
	// First is the first line that it has written.
	First string
}

// Start starts a writer, which has written its page when Start returns.
func Start(t testing.TB, env ...string) *Writer {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve")
	cmd.Env = append(os.Environ(), env...)
	w := &Writer{Child: Run(t, cmd)}
	w.First = w.Line(t)
	return w
}
