//go:build cgo

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// machine is an NVML with one device, some of whose functions are missing.
type machine struct {
	missing []string
	starts  result // how it goes
	opened  int
	asked   int    // for devices
	detail  result // of the newer question for memory
	plain   result
	running map[string]func() ([]holding, result)
}

const gib = 1 << 30

const noPermission result = 4

func newMachine(missing ...string) *machine {
	return &machine{missing: missing, running: map[string]func() ([]holding, result){}}
}

func (m *machine) has(function string) bool     { return !slices.Contains(m.missing, function) }
func (m *machine) start() result                { m.opened++; return m.starts }
func (m *machine) words(result) string          { return "" }
func (m *machine) at(int) (handle, result)      { return 0, 6 }
func (m *machine) uuid(handle) (string, result) { return "MIG-" + fakeUUID, success }

func (m *machine) find(_, uuid string) (handle, result) {
	if m.asked++; uuid == "MIG-"+fakeUUID {
		return 1, success
	}
	return 0, 6
}

func (m *machine) memory(_ handle, version int) (figures, result) {
	if version == 2 {
		return figures{total: 80 * gib, used: 60 * gib, free: 19 * gib, reserved: gib}, m.detail
	}
	return figures{total: 80 * gib, used: 61 * gib, free: 19 * gib}, m.plain
}

func (m *machine) processes(_ handle, function string) ([]holding, result) {
	if ask := m.running[function]; ask != nil {
		return ask()
	}
	return nil, success
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
	r := newMachine().reader(t, hostNamespace, nil)
	m, err := r.snapshot(fakeUUID)
	if err != nil || m.UUID != "MIG-"+fakeUUID || m.Total != 80*mem.GiB || m.Reserved != mem.GiB {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestOpenedOnce, whether that went well or not.
func TestOpenedOnce(t *testing.T) {
	good := newMachine()
	r := good.reader(t, hostNamespace, nil)
	for range 3 {
		if _, err := r.snapshot("MIG-" + fakeUUID); err != nil {
			t.Fatal(err)
		}
	}
	bad := newMachine("nvmlErrorString")
	bad.starts = noPermission
	r = bad.reader(t, hostNamespace, nil)
	for range 3 {
		_, err := r.snapshot(fakeUUID)
		var call *Error
		if !errors.Is(err, ErrAbsent) || !errors.As(err, &call) || call.Code != 4 || call.Text != "" {
			t.Errorf("a failed start is reported as %v", err)
		}
	}
	if good.opened != 1 || bad.opened != 1 {
		t.Errorf("started %d and %d times, want once each", good.opened, bad.opened)
	}
	if bad.asked != 0 {
		t.Errorf("%d calls after a failed start", bad.asked)
	}
	lost := errors.New("no such file")
	r = newReader(func() (library, error) { return nil, lost }, "/proc", 1)
	if _, err := r.snapshot(fakeUUID); !errors.Is(err, ErrAbsent) || !errors.Is(err, lost) {
		t.Errorf("a library that cannot be opened is reported as %v", err)
	}
}

func TestMemoryFallsBack(t *testing.T) {
	m := newMachine()
	m.detail = notSupported
	got, err := m.reader(t, hostNamespace, nil).snapshot(fakeUUID)
	if err != nil || got.Used != 61*mem.GiB || got.Reserved != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	m.plain = 15 // the GPU is lost
	_, err = m.reader(t, hostNamespace, nil).snapshot(fakeUUID)
	var call *Error
	if !errors.As(err, &call) || call.Call != "nvmlDeviceGetMemoryInfo" || call.Code != 15 {
		t.Errorf("a lost GPU is reported as %v", err)
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
		m.running["nvmlDeviceGetComputeRunningProcesses"] = func() ([]holding, result) {
			list := []holding{{300, 1<<64 - 1}, {200, 5 * gib}}
			if c.own {
				list = append(list, holding{100, gib})
			}
			return list, success
		}
		m.running["nvmlDeviceGetGraphicsRunningProcesses"] = func() ([]holding, result) { return []holding{{200, 6 * gib}}, success }
		m.running["nvmlDeviceGetMPSComputeRunningProcesses"] = func() ([]holding, result) { return nil, notSupported }
		got, err := m.reader(t, c.namespace, names).snapshot(fakeUUID)
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
		if !slices.Equal(got.Processes, want) || got.Hidden != nil {
			t.Errorf("%+v: %+v, want %+v (%v)", c, got.Processes, want, got.Hidden)
		}
	}
}

func TestProcessesHidden(t *testing.T) {
	m := newMachine("nvmlDeviceGetMPSComputeRunningProcesses")
	called := 0
	m.running["nvmlDeviceGetMPSComputeRunningProcesses"] = func() ([]holding, result) { // would be the end of the process
		called++
		return nil, success
	}
	m.running["nvmlDeviceGetComputeRunningProcesses"] = func() ([]holding, result) { return nil, noPermission }
	got, err := m.reader(t, hostNamespace, nil).snapshot(fakeUUID)
	if err != nil || got.Hidden == nil || !strings.Contains(got.Hidden.Error(), "nvmlDeviceGetComputeRunningProcesses failed with error 4") {
		t.Errorf("%+v, %v", got, err)
	}
	if called != 0 {
		t.Errorf("a function that is missing was called %d times", called)
	}
}
