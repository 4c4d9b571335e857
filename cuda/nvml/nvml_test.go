//go:build cgo

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"stalloc/internal/mem"
)

// machine is an NVML with one device, some of whose functions are missing.
type machine struct {
	mock.Interface
	device  mock.Device
	missing []string
	opened  int
}

const gib = 1 << 30

func newMachine(missing ...string) *machine {
	m := &machine{missing: missing}
	m.InitFunc = func() nvml.Return { m.opened++; return nvml.SUCCESS }
	m.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
			if slices.Contains(m.missing, name) {
				return errors.New("not found")
			}
			return nil
		}}
	}
	m.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		if uuid == "MIG-"+fakeUUID {
			return &m.device, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	none := func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	m.device.GetComputeRunningProcessesFunc = none
	m.device.GetGraphicsRunningProcessesFunc = none
	m.device.GetMPSComputeRunningProcessesFunc = none
	return m
}

// reader asks the machine as process 100, in a folder of processes.
func (m *machine) reader(t *testing.T, namespace string, names map[string]string) *reader {
	t.Helper()
	proc := t.TempDir()
	for pid, name := range names {
		if err := errors.Join(os.Mkdir(filepath.Join(proc, pid), 0o755),
			os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(proc, "self/ns"), 0o755),
		os.Symlink(namespace, filepath.Join(proc, "self/ns/pid"))); err != nil {
		t.Fatal(err)
	}
	return newReader(func() (library, error) { return m, nil }, proc, 100)
}

const hostNamespace, container = "pid:[4026531836]", "pid:[4026532000]"

func TestInstanceOfGPU(t *testing.T) {
	if _, err := newMachine().reader(t, hostNamespace, nil).holders(fakeUUID); err != nil {
		t.Error(err)
	}
}

// TestOpenedOnce, whether that went well or not.
func TestOpenedOnce(t *testing.T) {
	good := newMachine()
	r := good.reader(t, hostNamespace, nil)
	for range 3 {
		if _, err := r.holders("MIG-" + fakeUUID); err != nil {
			t.Fatal(err)
		}
	}
	bad := newMachine("nvmlErrorString")
	bad.InitFunc = func() nvml.Return { bad.opened++; return nvml.ERROR_NO_PERMISSION }
	r = bad.reader(t, hostNamespace, nil)
	for range 3 {
		_, err := r.holders(fakeUUID)
		var call *Error
		if !errors.Is(err, ErrAbsent) || !errors.As(err, &call) || call.Code != 4 ||
			call.Text != "" {
			t.Errorf("a failed start is reported as %v", err)
		}
	}
	if good.opened != 1 || bad.opened != 1 {
		t.Errorf("started %d and %d times, want once each", good.opened, bad.opened)
	}
	if n := len(bad.DeviceGetHandleByUUIDCalls()); n != 0 {
		t.Errorf("%d calls after a failed start", n)
	}
	lost := errors.New("no such file")
	r = newReader(func() (library, error) { return nil, lost }, "/proc", 1)
	if _, err := r.holders(fakeUUID); !errors.Is(err, ErrAbsent) || !errors.Is(err, lost) {
		t.Errorf("a library that cannot be opened is reported as %v", err)
	}
}

// TestProcesses: one entry each, the largest first, names only where the numbers
// mean what they mean to the driver.
func TestProcesses(t *testing.T) {
	names := map[string]string{"100": "self\n", "200": "py\x1b[31mthon\n"}
	for _, c := range []struct {
		namespace string
		own       bool // this process is on the list
		named     bool
	}{
		{hostNamespace, false, true},
		{hostNamespace, true, true},
		{container, true, true},
		{container, false, false},
	} {
		m := newMachine()
		m.device.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			list := []nvml.ProcessInfo{{Pid: 300, UsedGpuMemory: 1<<64 - 1},
				{Pid: 200, UsedGpuMemory: 5 * gib}}
			if c.own {
				list = append(list, nvml.ProcessInfo{Pid: 100, UsedGpuMemory: gib})
			}
			return list, nvml.SUCCESS
		}
		m.device.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 200, UsedGpuMemory: 6 * gib}}, nvml.SUCCESS
		}
		m.device.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return nil, nvml.ERROR_NOT_SUPPORTED
		}
		got, err := m.reader(t, c.namespace, names).holders(fakeUUID)
		if err != nil {
			t.Fatal(err)
		}
		want := []Process{{PID: 200, Used: 6 * mem.GiB}, {PID: 300, Used: Unknown}}
		if c.own {
			want = slices.Insert(want, 1, Process{PID: 100, Used: mem.GiB, Self: true})
		}
		if c.named {
			want[0].Name = "py[31mthon"
			if c.own {
				want[1].Name = "self"
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %+v, want %+v", c, got, want)
		}
	}
}

func TestProcessesHidden(t *testing.T) {
	m := newMachine("nvmlDeviceGetMPSComputeRunningProcesses",
		"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3")
	m.device.GetMPSComputeRunningProcessesFunc = nil // a call would be the end of the process
	m.device.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return nil, nvml.ERROR_NO_PERMISSION
	}
	m.device.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 300, UsedGpuMemory: gib}}, nvml.SUCCESS
	}
	got, err := m.reader(t, hostNamespace, nil).holders(fakeUUID)
	if len(got) != 1 || err == nil || !strings.Contains(err.Error(),
		"nvmlDeviceGetComputeRunningProcesses failed with error 4") {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(m.device.GetMPSComputeRunningProcessesCalls()); n != 0 {
		t.Errorf("a function that is missing was called %d times", n)
	}
}
