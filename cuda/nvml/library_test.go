//go:build cgo

package nvml

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"stalloc/internal/mem"
)

// answer is what a child process found out.
type answer struct {
	Holders []Process
	Error   string
	Absent  bool
	Same    bool // from all threads, twice
}

// TestMain makes the test binary a program that asks one question, where the
// environment says so: go-nvml keeps what it found in the process for good, so
// every library needs a process of its own.
func TestMain(m *testing.M) {
	if device := os.Getenv("STALLOC_TEST_ASK"); device != "" {
		json.NewEncoder(os.Stdout).Encode(ask(device))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func ask(device string) answer {
	var wg sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		wg.Go(func() {
			a := &answers[i]
			for range 2 {
				var err error
				if a.Holders, err = Holders(device); err != nil {
					a.Error, a.Absent = err.Error(), errors.Is(err, ErrAbsent)
				}
			}
		})
	}
	wg.Wait()
	answers[0].Same = true
	for _, a := range answers[1:] {
		a.Same = true
		answers[0].Same = answers[0].Same && reflect.DeepEqual(a, answers[0])
	}
	return answers[0]
}

// build makes a libnvidia-ml.so.1 into a folder of its own.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	folder := t.TempDir()
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
		filepath.Join(folder, libraryName), "testdata/nvml.c"}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return folder
}

// child asks about a device in a process that finds NVML in folder, and returns
// its number too.
func child(t *testing.T, folder, device string) (answer, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STALLOC_TEST_ASK="+device, "LD_LIBRARY_PATH="+folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("asking about %s ended the process: %v\n%s", device, err, out)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if !a.Same {
		t.Errorf("threads that asked about %s at once got different answers", device)
	}
	return a, cmd.Process.Pid
}

const (
	fakeUUID = "66616b65-0000-0000-0000-000000000000"
	noUUID   = "77777777-0000-0000-0000-000000000000"
)

// TestLibrary asks a whole library for its device under both its names.
func TestLibrary(t *testing.T) {
	folder := build(t)
	for _, name := range []string{fakeUUID, "GPU-" + fakeUUID} {
		a, pid := child(t, folder, name)
		if a.Error != "" || len(a.Holders) != 3 || a.Holders[0].PID != 1 ||
			a.Holders[0].Used != 60*mem.GiB {
			t.Fatalf("device %s: %+v", name, a)
		}
		own := a.Holders[1]
		comm, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		if own.PID != pid || !own.Self || own.Name != strings.TrimSpace(string(comm)) {
			t.Errorf("device %s: this process is %+v, want number %d and name %q", name, own, pid,
				comm)
		}
		if last := a.Holders[2]; last.Name != "" || last.Self {
			t.Errorf("device %s: a process that does not exist is %+v", name, last)
		}
	}
	const want = "device GPU-" + noUUID +
		": nvmlDeviceGetHandleByUUID failed with error 6 (Not Found); nvidia-smi -L"
	if a, _ := child(t, folder, noUUID); !strings.Contains(a.Error, want) || a.Absent {
		t.Errorf("%+v, want the error %q", a, want)
	}
}

// TestOldLibrary: functions that are missing in a driver are not called.
func TestOldLibrary(t *testing.T) {
	folder := build(t, "-DOLD")
	a, pid := child(t, folder, fakeUUID)
	if a.Error != "" || len(a.Holders) != 3 || a.Holders[1].PID != pid ||
		a.Holders[1].Used != 8*mem.GiB {
		t.Errorf("%+v", a)
	}
	const want = "nvmlDeviceGetHandleByUUID failed with error 6;"
	if a, _ := child(t, folder, noUUID); !strings.Contains(a.Error, want) {
		t.Errorf("%+v, want the error %q", a, want)
	}
}

// TestUnusableLibraries: each is an absent NVML, in every answer alike.
func TestUnusableLibraries(t *testing.T) {
	text := t.TempDir()
	if err := os.WriteFile(filepath.Join(text, libraryName),
		[]byte(strings.Repeat("no library\n", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{
		build(t, "-DFOREIGN"):          "libnvidia-ml.so.1 has no function nvmlInit",
		build(t, "-DFAILING"):          "nvmlInit failed with error 9 (Driver Not Loaded)",
		build(t, "-DFAILING", "-DOLD"): "nvmlInit failed with error 9",
		text:                           "invalid ELF header",
	} {
		a, _ := child(t, folder, fakeUUID)
		if !a.Absent || !strings.HasPrefix(a.Error, "NVML is not available: ") ||
			!strings.Contains(a.Error, want) {
			t.Errorf("%+v, want an error that says %q", a, want)
		}
	}
}

// TestNothingAtLoad: importing the package opens no library.
func TestNothingAtLoad(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(maps), "libnvidia-ml") {
		t.Error("NVML is loaded though nobody asked")
	}
	if fmt.Sprint(system.lib, system.absent) != "<nil> <nil>" {
		t.Error("the library was opened by the tests, which should ask in processes of their own")
	}
}
