//go:build cgo

// Package fake builds the simulated CUDA driver for a Go test and controls it.
//
// The library is compiled by gcc into the test's temporary folder, as
// libcuda.so.1, and opened; a program under test opens the same path and gets
// the same library. Its state is the process's: tests that use it do not run in
// parallel, and call Reset first.
package fake

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

static void *fake_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static int fake_int_text(void *f, const char *s) { return ((int (*)(const char *))f)(s); }
static long fake_long_text(void *f, const char *s) { return ((long (*)(const char *))f)(s); }
static int fake_int_stream(void *f, size_t stream) { return ((int (*)(void *))f)((void *)stream); }
static void fake_void(void *f) { ((void (*)(void))f)(); }
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"unsafe"
)

// Library is the simulated driver, loaded into this process.
type Library struct {
	Path    string
	symbols map[string]unsafe.Pointer
}

// Build compiles the library into a folder and returns its path. More flags for
// gcc, such as a sanitizer's, may follow.
func Build(folder string, flags ...string) (string, error) {
	_, here, _, _ := runtime.Caller(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", "*.c"))
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("no C sources beside %s: %v", here, err)
	}
	path := filepath.Join(folder, "libcuda.so.1")
	args := append([]string{"-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared",
		"-fPIC",
		"-Wl,-soname,libcuda.so.1", "-o", path}, flags...)
	args = append(args, sources...)
	args = append(args, "-lpthread")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
}

// Load builds the library into a folder and opens it.
func Load(folder string) (*Library, error) {
	path, err := Build(folder)
	if err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	library := C.fake_open(name)
	if library == nil {
		return nil, fmt.Errorf("dlopen %s: %s", path, C.GoString(C.dlerror()))
	}
	l := &Library{Path: path, symbols: map[string]unsafe.Pointer{}}
	for _, symbol := range []string{"fakecuda_fail", "fakecuda_count", "fakecuda_live",
		"fakecuda_capture_begin", "fakecuda_capture_end", "fakecuda_reset"} {
		text := C.CString(symbol)
		l.symbols[symbol] = C.dlsym(library, text)
		C.free(unsafe.Pointer(text))
		if l.symbols[symbol] == nil {
			return nil, fmt.Errorf("%s has no %s", path, symbol)
		}
	}
	return l, nil
}

// Fail makes calls fail, by rules such as "cuMemMap:3:2,cuMemCreate:*:2"; ""
// ends that. It panics on rules that cannot be read.
func (l *Library) Fail(rules string) {
	text := C.CString(rules)
	defer C.free(unsafe.Pointer(text))
	if C.fake_int_text(l.symbols["fakecuda_fail"], text) != 0 {
		panic(fmt.Sprintf("fakecuda: cannot read the failure rules %q", rules))
	}
}

// Count returns how often a driver function was called, "*" for all.
func (l *Library) Count(name string) int { return l.number("fakecuda_count", name) }

// Live returns how many "handles", "mappings", "reservations", "blocks",
// "events", "streams", "contexts" or "pins" there are.
func (l *Library) Live(kind string) int { return l.number("fakecuda_live", kind) }

func (l *Library) number(symbol, argument string) int {
	text := C.CString(argument)
	defer C.free(unsafe.Pointer(text))
	n := int(C.fake_long_text(l.symbols[symbol], text))
	if n < 0 {
		panic(fmt.Sprintf("%s: there is no %q", symbol, argument))
	}
	return n
}

// BeginCapture starts a stream capture in global mode.
func (l *Library) BeginCapture(stream uint64) {
	C.fake_int_stream(l.symbols["fakecuda_capture_begin"], C.size_t(stream))
}

// EndCapture ends it and reports whether it is still valid.
func (l *Library) EndCapture(stream uint64) bool {
	return C.fake_int_stream(l.symbols["fakecuda_capture_end"], C.size_t(stream)) == 1
}

// Reset takes everything back and reads the FAKECUDA_ variables again.
func (l *Library) Reset() { C.fake_void(l.symbols["fakecuda_reset"]) }

// Libraries returns the folder of the libraries that `make build` makes, beside the package that
// asks, two folders below the root.
func Libraries() (string, error) {
	folder, err := filepath.Abs("../../python/stalloc/lib")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"libstalloc.so", "libstalloc_engine.so"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("this test loads %s, which is not built: run 'make build' first",
				name)
		}
	}
	return folder, nil
}
