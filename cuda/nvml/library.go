//go:build cgo

package nvml

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// NVML's functions take numbers and pointers, three at most, and return a number.
static int ask(void *f, uintptr_t a, void *b, void *c) { return ((int (*)(uintptr_t, void *, void *))f)(a, b, c); }
static int ask_text(void *f, uintptr_t device, char *to, unsigned room) { return ((int (*)(uintptr_t, char *, unsigned))f)(device, to, room); }
static const char *words(void *f, int code) { return ((const char *(*)(int))f)(code); }

struct memory { unsigned long long total, free, used; };
struct memory2 { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long used; };
struct process2 { unsigned pid; unsigned long long used; unsigned instance, compute_instance; };
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Of nvmlReturn_t.
const (
	success          result = 0
	notSupported     result = 3
	insufficientSize result = 7
	functionNotFound result = 13
)

type result int

// handle is NVML's pointer to what it knows of a device.
type handle uintptr

// holding is a process and the bytes that it has of a device.
type holding struct {
	pid  uint32
	used uint64
}

// figures are a device's memory in bytes.
type figures struct{ total, used, free, reserved uint64 }

// library is an NVML. A function that it does not have is not to be called.
type library interface {
	has(function string) bool // in any version
	start() result
	words(code result) string
	find(function, name string) (handle, result)
	at(index int) (handle, result)
	uuid(device handle) (string, result)
	memory(device handle, version int) (figures, result)
	processes(device handle, function string) ([]holding, result)
}

// libraryName is found as the dynamic linker finds it.
const libraryName = "libnvidia-ml.so.1"

// loaded is an open library. Its functions are looked up by name, so that a driver may lack
// some, and nothing is left to the dynamic linker.
type loaded struct{ library unsafe.Pointer }

func openSystem() (library, error) {
	name := C.CString(libraryName)
	defer C.free(unsafe.Pointer(name))
	l := loaded{C.dlopen(name, C.RTLD_LAZY|C.RTLD_LOCAL)}
	if l.library == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	if !l.has("nvmlInit") {
		C.dlclose(l.library)
		return nil, fmt.Errorf("%s has no function nvmlInit: it is not NVIDIA's", libraryName)
	}
	return l, nil
}

// newest returns the newest version of a function that is there, and its number.
func (l loaded) newest(function string) (f unsafe.Pointer, version int) {
	for version = 3; version > 0; version-- {
		name := function
		if version > 1 {
			name = fmt.Sprintf("%s_v%d", function, version)
		}
		if f = l.symbol(name); f != nil {
			break
		}
	}
	return f, version
}

func (l loaded) symbol(name string) unsafe.Pointer {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.dlsym(l.library, text)
}

func (l loaded) has(function string) bool {
	f, _ := l.newest(function)
	return f != nil
}

func (l loaded) start() result {
	f, _ := l.newest("nvmlInit")
	return result(C.ask(f, 0, nil, nil))
}

func (l loaded) words(code result) string {
	return C.GoString(C.words(l.symbol("nvmlErrorString"), C.int(code)))
}

func (l loaded) find(function, name string) (device handle, code result) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	f, _ := l.newest(function)
	code = result(C.ask(f, C.uintptr_t(uintptr(unsafe.Pointer(text))), unsafe.Pointer(&device), nil))
	return device, code
}

func (l loaded) at(index int) (device handle, code result) {
	f, _ := l.newest("nvmlDeviceGetHandleByIndex")
	code = result(C.ask(f, C.uintptr_t(index), unsafe.Pointer(&device), nil))
	return device, code
}

func (l loaded) uuid(device handle) (string, result) {
	var text [96]C.char // as much as NVML says that one may take
	f, _ := l.newest("nvmlDeviceGetUUID")
	code := result(C.ask_text(f, C.uintptr_t(device), &text[0], C.uint(len(text))))
	return C.GoString(&text[0]), code
}

func (l loaded) memory(device handle, version int) (figures, result) {
	if version == 1 {
		var m C.struct_memory
		code := C.ask(l.symbol("nvmlDeviceGetMemoryInfo"), C.uintptr_t(device), unsafe.Pointer(&m), nil)
		return figures{total: uint64(m.total), used: uint64(m.used), free: uint64(m.free)}, result(code)
	}
	m := C.struct_memory2{version: C.sizeof_struct_memory2 | 2<<24}
	code := C.ask(l.symbol("nvmlDeviceGetMemoryInfo_v2"), C.uintptr_t(device), unsafe.Pointer(&m), nil)
	return figures{uint64(m.total), uint64(m.used), uint64(m.free), uint64(m.reserved)}, result(code)
}

func (l loaded) processes(device handle, function string) ([]holding, result) {
	f, version := l.newest(function)
	for room := C.uint(64); ; room *= 2 {
		n, list, list2 := room, make([]C.struct_process, room), make([]C.struct_process2, room)
		to := unsafe.Pointer(&list2[0])
		if version == 1 {
			to = unsafe.Pointer(&list[0])
		}
		code := result(C.ask(f, C.uintptr_t(device), unsafe.Pointer(&n), to))
		if code == insufficientSize && room < 1<<16 {
			continue
		}
		if code != success {
			return nil, code
		}
		found := make([]holding, min(n, room))
		for i := range found {
			if version == 1 {
				found[i] = holding{uint32(list[i].pid), uint64(list[i].used)}
			} else {
				found[i] = holding{uint32(list2[i].pid), uint64(list2[i].used)}
			}
		}
		return found, code
	}
}
