// Package pagetest has processes with pages, for tests: cshim/page.c itself in a program
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
	if err := os.WriteFile(filepath.Join(folder, "fields.h"), []byte(fields.String()), 0o600); err != nil {
		return "", err
	}
	source := filepath.Join(filepath.Dir(here), "testdata", "writer.c")
	shim := filepath.Join(filepath.Dir(here), "..", "..", "..", "cshim", "page.c")
	path := filepath.Join(folder, "writer")
	out, err := exec.Command("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread",
		"-I"+folder, "-o", path, source, shim).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
})

// Writer is a process with a page.
type Writer struct {
	*exec.Cmd
	In  io.WriteCloser
	Out *bufio.Scanner
	// First is the first line that it has written.
	First string
}

// Start starts a writer, which has written its page when Start returns. The test's end
// ends it.
func Start(t testing.TB, env ...string) *Writer {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{Cmd: exec.Command(path, "serve")}
	w.Env = append(os.Environ(), env...)
	w.Stderr = os.Stderr
	if w.In, err = w.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Out = bufio.NewScanner(out)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Process.Kill(); w.Wait() })
	w.First = w.line(t)
	return w
}

func (w *Writer) line(t testing.TB) string {
	t.Helper()
	if !w.Out.Scan() {
		t.Fatalf("the writer has ended: %v", w.Out.Err())
	}
	return w.Out.Text()
}

// Do has the writer do something, and waits until it is done.
func (w *Writer) Do(t testing.TB, what string) {
	t.Helper()
	fmt.Fprintln(w.In, what)
	w.line(t)
}
