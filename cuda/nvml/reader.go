//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"stalloc/internal/mem"
)

// library is the part of go-nvml that is used here.
type library interface {
	Init() nvml.Return
	DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return)
	DeviceGetHandleByPciBusId(id string) (nvml.Device, nvml.Return)
	DeviceGetHandleByIndex(index int) (nvml.Device, nvml.Return)
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
		return nil, errors.Join(fmt.Errorf("%s has no function nvmlInit: it is not NVIDIA's", libraryName), file.Close())
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

// missing is the error for a function that the installed driver does not have.
func missing(call string) error {
	return &Error{Call: call, Code: int(nvml.ERROR_FUNCTION_NOT_FOUND), Text: "the installed driver does not have it"}
}

func (r *reader) snapshot(name string) (Memory, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.start(); err != nil {
		return Memory{}, err
	}
	device, err := r.device(name)
	if err != nil {
		return Memory{}, err
	}
	m, err := r.memory(device)
	if err != nil {
		return Memory{}, err
	}
	m.UUID = name
	if has(r.lib, "nvmlDeviceGetUUID") {
		if uuid, ret := device.GetUUID(); ret == nvml.SUCCESS {
			m.UUID = uuid
		}
	}
	m.Processes, m.Hidden = r.processes(device)
	return m, nil
}

// device finds a device by the name that Snapshot was given.
func (r *reader) device(name string) (nvml.Device, error) {
	index, notIndex := strconv.Atoi(name)
	switch {
	case strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-"):
		return r.byUUID(name)
	case bareUUID(name):
		// CUDA's 16 bytes do not say whether they name a whole GPU.
		device, err := r.byUUID("GPU-" + name)
		if err == nil {
			return device, nil
		}
		if device, e := r.byUUID("MIG-" + name); e == nil {
			return device, nil
		}
		return nil, err
	case strings.Contains(name, ":"):
		if !has(r.lib, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId") {
			return nil, missing("nvmlDeviceGetHandleByPciBusId")
		}
		device, ret := r.lib.DeviceGetHandleByPciBusId(name)
		return device, r.named("nvmlDeviceGetHandleByPciBusId", name, ret)
	case notIndex == nil && index >= 0:
		if !has(r.lib, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
			return nil, missing("nvmlDeviceGetHandleByIndex")
		}
		device, ret := r.lib.DeviceGetHandleByIndex(index)
		return device, r.named("nvmlDeviceGetHandleByIndex", name, ret)
	}
	return nil, fmt.Errorf("%q names no device: expected a UUID, a PCI bus id such as 0000:3b:00.0, or NVML's number of it; nvidia-smi -L lists the UUIDs", name)
}

func (r *reader) byUUID(uuid string) (nvml.Device, error) {
	if !has(r.lib, "nvmlDeviceGetHandleByUUID") {
		return nil, missing("nvmlDeviceGetHandleByUUID")
	}
	device, ret := r.lib.DeviceGetHandleByUUID(uuid)
	return device, r.named("nvmlDeviceGetHandleByUUID", uuid, ret)
}

func (r *reader) named(call, name string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("device %s: %w; nvidia-smi -L lists those there are", name, failure(r.lib, call, ret))
}

// bareUUID reports whether a name has the form of CUDA's UUIDs, 8-4-4-4-12
// hexadecimal digits.
func bareUUID(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) != 5 {
		return false
	}
	for i, digits := range []int{8, 4, 4, 4, 12} {
		if len(parts[i]) != digits || strings.Trim(parts[i], "0123456789abcdefABCDEF") != "" {
			return false
		}
	}
	return true
}

// memory prefers the newer call, which tells what the driver keeps apart from
// what is used; a driver may have it and still refuse.
func (r *reader) memory(device nvml.Device) (Memory, error) {
	if has(r.lib, "nvmlDeviceGetMemoryInfo_v2") {
		if m, ret := device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			return Memory{Total: amount(m.Total), Used: amount(m.Used), Free: amount(m.Free), Reserved: amount(m.Reserved)}, nil
		}
	}
	if !has(r.lib, "nvmlDeviceGetMemoryInfo") {
		return Memory{}, missing("nvmlDeviceGetMemoryInfo")
	}
	m, ret := device.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return Memory{}, failure(r.lib, "nvmlDeviceGetMemoryInfo", ret)
	}
	return Memory{Total: amount(m.Total), Used: amount(m.Used), Free: amount(m.Free)}, nil
}

// amount reads a number of bytes; all bits set means that it is not told.
func amount(n uint64) mem.Bytes {
	if n >= 1<<63 {
		return Unknown
	}
	return mem.Bytes(n)
}
