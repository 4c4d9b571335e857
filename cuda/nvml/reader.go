//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is the part of go-nvml that is used here.
type library interface {
	Init() nvml.Return
	DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return)
	Extensions() nvml.ExtendedInterface
}

// reader asks one NVML. The library is opened by the first question and stays
// open: starting it took 17 ms on an H100, a question then 0.12 ms.
type reader struct {
	mu     sync.Mutex // one question at a time
	open   func() (library, error)
	lib    library // nil before the first question, and where there is no NVML
	absent error   // why there is none
	proc   string  // where processes are described
	pid    int     // of this process
}

func newReader(open func() (library, error), proc string, pid int) *reader {
	return &reader{open: open, proc: proc, pid: pid}
}

// libraryName is found as the dynamic linker finds it.
const libraryName = "libnvidia-ml.so.1"

// openSystem makes sure that initialising NVML cannot end the process, before
// go-nvml is let near it: that calls nvmlInit without a look whether it exists.
func openSystem() (library, error) {
	file := dl.New(libraryName, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := file.Open(); err != nil {
		return nil, err
	}
	if file.Lookup("nvmlInit_v2") != nil && file.Lookup("nvmlInit") != nil {
		return nil, errors.Join(fmt.Errorf("%s has no function nvmlInit: it is not NVIDIA's",
			libraryName), file.Close())
	}
	return nvml.New(nvml.WithLibraryPath(libraryName)), nil
}

// start initialises NVML once. The reader is locked.
func (r *reader) start() error {
	if r.lib != nil || r.absent != nil {
		return r.absent
	}
	lib, err := r.open()
	if err == nil {
		if ret := lib.Init(); ret != nvml.SUCCESS {
			err = failure(lib, "nvmlInit", ret)
		}
	}
	if err != nil {
		r.absent = fmt.Errorf("%w: %w", ErrAbsent, err)
		return r.absent
	}
	r.lib = lib
	return nil
}

// failure turns a result into an error. The text of an error is a function of
// the library too.
func failure(lib library, call string, ret nvml.Return) error {
	e := &Error{Call: call, Code: int(ret)}
	if has(lib, "nvmlErrorString") {
		e.Text = ret.Error()
	}
	return e
}

// has reports whether the library has one of these functions. Where go-nvml
// knows several versions of one, it calls the newest that is there.
func has(lib library, names ...string) bool {
	for _, name := range names {
		if lib.Extensions().LookupSymbol(name) == nil {
			return true
		}
	}
	return false
}

func (r *reader) holders(name string) ([]Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.start(); err != nil {
		return nil, err
	}
	device, err := r.device(name)
	if err != nil {
		return nil, err
	}
	return r.processes(device)
}

// device finds a device by the name that Holders was given.
func (r *reader) device(name string) (nvml.Device, error) {
	if strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-") {
		return r.byUUID(name)
	}
	// CUDA's 16 bytes do not say whether they name a whole GPU.
	device, err := r.byUUID("GPU-" + name)
	if err == nil {
		return device, nil
	}
	if device, e := r.byUUID("MIG-" + name); e == nil {
		return device, nil
	}
	return nil, err
}

func (r *reader) byUUID(uuid string) (nvml.Device, error) {
	const call = "nvmlDeviceGetHandleByUUID"
	if !has(r.lib, call) {
		return nil, &Error{Call: call, Code: int(nvml.ERROR_FUNCTION_NOT_FOUND),
			Text: "the installed driver does not have it"}
	}
	device, ret := r.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("device %s: %w; nvidia-smi -L lists those there are", uuid,
			failure(r.lib, call, ret))
	}
	return device, nil
}
