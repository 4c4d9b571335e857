//go:build cgo

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"stalloc/internal/mem"
)

// says checks that an error holds all of these texts.
func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
}

func TestNoDriver(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libcuda.so.1")
	_, err := Open(missing)
	says(t, err, "cannot open the CUDA driver library "+missing, "No such file",
		"install the NVIDIA driver", "LD_LIBRARY_PATH")

	text := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(text, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(text)
	says(t, err, text, "file too short", "install the NVIDIA driver")
}

func TestForeignLibrary(t *testing.T) {
	folder := t.TempDir()
	source, library := filepath.Join(folder, "old.c"), filepath.Join(folder, "libcuda.so.1")
	if err := os.WriteFile(source, []byte("int cuInit(unsigned flags) { return (int)flags; }\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library,
		source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	_, err := Open(library)
	says(t, err, library, "has no function cuDriverGetVersion", "CUDA 11.4 or later")
}

func TestNoSuchDevice(t *testing.T) {
	restart(t, map[string]string{"FAKECUDA_DEVICES": "2"})
	driver, err := Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, ordinal := range []int{-1, 2} {
		_, err := driver.Device(ordinal)
		says(t, err, "has 2, numbered from 0", "CUDA_VISIBLE_DEVICES",
			"cuDeviceGet failed with driver error 101 (CUDA_ERROR_INVALID_DEVICE)")
	}
	restart(t, map[string]string{"FAKECUDA_DEVICES": "0"})
	_, err = driver.Device(0)
	says(t, err, "cannot open device 0", lib.Path,
		"cuInit failed with driver error 100 (CUDA_ERROR_NO_DEVICE)", "nvidia-smi")
	if n := lib.Live("contexts"); n != 0 {
		t.Errorf("%d contexts retained by devices that did not open", n)
	}
}

func TestUUID(t *testing.T) {
	restart(t, map[string]string{"FAKECUDA_DEVICES": "2"})
	driver, err := Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	if uuid, err := d.UUID(); err != nil || uuid != "66616b65-0000-0000-0000-000000000001" {
		t.Errorf("device 1 has UUID %q, %v", uuid, err)
	}
	lib.Fail("cuDeviceGetUuid:*:801")
	_, err = d.UUID()
	says(t, err, "cuDeviceGetUuid failed with driver error 801")
	lib.Fail("")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestTableFromElsewhere(t *testing.T) {
	restart(t, nil)
	owner, err := Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := FromTable(unsafe.Pointer(owner.table)).Device(0)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name() != "fake CUDA device 0" {
		t.Errorf("the device is called %q", d.Name())
	}
	if err := tour(d); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseTellsLeaks names what was not given back.
func TestCloseTellsLeaks(t *testing.T) {
	restart(t, nil)
	d := open(t)
	if _, err := d.Create(mem.HandleSize); err != nil {
		t.Fatal(err)
	}
	says(t, d.Close(), "fake CUDA device 0 closed with 0 reservations and 1 handles not given back")
	_, err := d.Reserve(mem.HandleSize)
	says(t, err, "cuMemAddressReserve failed with driver error 4 (CUDA_ERROR_DEINITIALIZED)")
}
