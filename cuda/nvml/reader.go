//go:build cgo

package nvml

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"stalloc/internal/mem"
)

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

// start initialises NVML once. The reader is locked.
func (r *reader) start() error {
	if r.lib != nil || r.absent != nil {
		return r.absent
	}
	lib, err := r.open()
	if err == nil {
		if ret := lib.start(); ret != success {
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
func failure(lib library, call string, ret result) error {
	e := &Error{Call: call, Code: int(ret)}
	if lib.has("nvmlErrorString") {
		e.Text = lib.words(ret)
	}
	return e
}

// missing is the error for a function that the installed driver does not have.
func missing(call string) error {
	return &Error{Call: call, Code: int(functionNotFound), Text: "the installed driver does not have it"}
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
	if r.lib.has("nvmlDeviceGetUUID") {
		if uuid, ret := r.lib.uuid(device); ret == success {
			m.UUID = uuid
		}
	}
	m.Processes, m.Hidden = r.processes(device)
	return m, nil
}

// device finds a device by the name that Snapshot was given.
func (r *reader) device(name string) (handle, error) {
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
		return 0, err
	case strings.Contains(name, ":"):
		if !r.lib.has("nvmlDeviceGetHandleByPciBusId") {
			return 0, missing("nvmlDeviceGetHandleByPciBusId")
		}
		device, ret := r.lib.find("nvmlDeviceGetHandleByPciBusId", name)
		return device, r.named("nvmlDeviceGetHandleByPciBusId", name, ret)
	case notIndex == nil && index >= 0:
		if !r.lib.has("nvmlDeviceGetHandleByIndex") {
			return 0, missing("nvmlDeviceGetHandleByIndex")
		}
		device, ret := r.lib.at(index)
		return device, r.named("nvmlDeviceGetHandleByIndex", name, ret)
	}
	return 0, fmt.Errorf("%q names no device: expected a UUID, a PCI bus id such as 0000:3b:00.0, or NVML's number of it; nvidia-smi -L lists the UUIDs", name)
}

func (r *reader) byUUID(uuid string) (handle, error) {
	if !r.lib.has("nvmlDeviceGetHandleByUUID") {
		return 0, missing("nvmlDeviceGetHandleByUUID")
	}
	device, ret := r.lib.find("nvmlDeviceGetHandleByUUID", uuid)
	return device, r.named("nvmlDeviceGetHandleByUUID", uuid, ret)
}

func (r *reader) named(call, name string, ret result) error {
	if ret == success {
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
func (r *reader) memory(device handle) (Memory, error) {
	call := "nvmlDeviceGetMemoryInfo"
	m, ret := figures{}, functionNotFound
	if r.lib.has(call + "_v2") {
		m, ret = r.lib.memory(device, 2)
	}
	if ret != success && !r.lib.has(call) {
		return Memory{}, missing(call)
	}
	if ret != success {
		m, ret = r.lib.memory(device, 1)
	}
	if ret != success {
		return Memory{}, failure(r.lib, call, ret)
	}
	return Memory{Total: amount(m.total), Used: amount(m.used), Free: amount(m.free), Reserved: amount(m.reserved)}, nil
}

// amount reads a number of bytes; all bits set means that it is not told.
func amount(n uint64) mem.Bytes {
	if n >= 1<<63 {
		return Unknown
	}
	return mem.Bytes(n)
}
