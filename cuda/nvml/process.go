//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"stalloc/internal/mem"
)

// processes lists who holds memory of a device: programs that compute, that
// draw, and that compute through NVIDIA's multi-process service. One that does
// several of these is listed once. The error says what could not be asked.
func (r *reader) processes(device nvml.Device) ([]Process, error) {
	var hidden []error
	var infos []nvml.ProcessInfo
	for _, kind := range []struct {
		call string
		ask  func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"nvmlDeviceGetComputeRunningProcesses", device.GetComputeRunningProcesses},
		{"nvmlDeviceGetGraphicsRunningProcesses", device.GetGraphicsRunningProcesses},
		{"nvmlDeviceGetMPSComputeRunningProcesses", device.GetMPSComputeRunningProcesses},
	} {
		if !has(r.lib, kind.call+"_v3", kind.call+"_v2", kind.call) {
			continue // older than the feature
		}
		found, ret := kind.ask()
		if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
			hidden = append(hidden, failure(r.lib, kind.call, ret))
		}
		infos = append(infos, found...)
	}
	return r.describe(infos), errors.Join(hidden...)
}

// describe makes one entry of each process.
func (r *reader) describe(infos []nvml.ProcessInfo) []Process {
	var processes []Process
	at := make(map[uint32]int)
	named := r.hostNumbers()
	for _, info := range infos {
		used := amount(info.UsedGpuMemory)
		if i, ok := at[info.Pid]; ok { // each list has the sum of both
			processes[i].Used = max(processes[i].Used, used)
			continue
		}
		at[info.Pid] = len(processes)
		p := Process{PID: int(info.Pid), Used: used, Self: int(info.Pid) == r.pid}
		named = named || p.Self
		processes = append(processes, p)
	}
	for i := range processes {
		if named {
			processes[i].Name = r.name(processes[i].PID)
		}
	}
	slices.SortStableFunc(processes, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.PID, b.PID))
	})
	return processes
}

// amount reads a number of bytes; all bits set means that it is not told.
func amount(n uint64) mem.Bytes {
	if n >= 1<<63 {
		return Unknown
	}
	return mem.Bytes(n)
}

// hostNumbers reports whether process numbers mean the same here as to the
// driver, which uses the host's. In a container they name other processes, and a
// wrong name would be worse than none. The kernel's first namespace of process
// numbers always has this name (PROC_PID_INIT_INO in linux/proc_ns.h).
func (r *reader) hostNumbers() bool {
	link, err := os.Readlink(filepath.Join(r.proc, "self/ns/pid"))
	return err == nil && link == "pid:[4026531836]"
}

// name reads the name of a process's command. It is set by the process itself,
// so what could disturb a log is taken out.
func (r *reader) name(pid int) string {
	text, err := os.ReadFile(filepath.Join(r.proc, strconv.Itoa(pid), "comm"))
	if err != nil { // gone by now, or not ours to see
		return ""
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, strings.TrimSpace(string(text)))
}
