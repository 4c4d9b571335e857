//go:build cgo

package fake

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStress runs threads over the simulated driver and the product's C code
// around it, plain and under the sanitizers.
func TestStress(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":     nil,
		"addresses": {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
		"threads":   {"-fsanitize=thread"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			library, err := Build(folder, flags...)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(folder, "stress")
			cuda := filepath.Join("..", "..", "..", "cuda")
			args := append([]string{"-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o",
				program}, flags...)
			args = append(args, filepath.Join("testdata", "stress.c"),
				filepath.Join(cuda, "driver.c"),
				filepath.Join(cuda, "device.c"), filepath.Join(cuda,
					"stream.c"), "-ldl", "-lpthread")
			if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			run := exec.Command(program, library)
			run.Env = append(run.Environ(), "FAKECUDA_CAPACITY=134217728", "FAKECUDA_DEVICES=2",
				"ASAN_OPTIONS=handle_segv=0", "TSAN_OPTIONS=handle_segv=0")
			out, err := run.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "clean" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestUnreadableSettings: a typing error in a rule or a setting is never passed
// over.
func TestUnreadableSettings(t *testing.T) {
	lib, err := Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"", "cuMemMap:3:2", "cuMemMap:3:2,cuMemCreate:*:2", "*:1:999"} {
		lib.Fail(good)
	}
	for what, do := range map[string]func(){
		"unknown function":   func() { lib.Fail("cuMemMop:1:2") },
		"no code":            func() { lib.Fail("cuMemMap:1") },
		"call 0":             func() { lib.Fail("cuMemMap:0:2") },
		"success as failure": func() { lib.Fail("cuMemMap:1:0") },
		"something after it": func() { lib.Fail("cuMemMap:1:2;") },
		"unknown counter":    func() { lib.Count("cuMemMop") },
		"unknown kind":       func() { lib.Live("memories") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", what)
				}
			}()
			do()
		}()
	}
	program := filepath.Join(t.TempDir(), "settings")
	build := exec.Command("gcc", "-x", "c", "-", "-o", program, "-ldl")
	build.Stdin = strings.NewReader(`#include <dlfcn.h>
		int main(int argc, char **argv) {
			(void)argc;
			int (*init)(unsigned) = (int (*)(unsigned))dlsym(dlopen(argv[1], RTLD_NOW), "cuInit");
			return init(0);
		}`)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for setting, fails := range map[string]bool{
		"FAKECUDA_DEVICES=2": false, "FAKECUDA_DEVICES=9": true, "FAKECUDA_CAPACITY=8GiB": true,
		"FAKECUDA_EVENT_DELAY=-1": true, "FAKECUDA_FAIL=cuMemMop:1:2": true,
	} {
		run := exec.Command(program, lib.Path)
		run.Env = append(run.Environ(), setting)
		out, err := run.CombinedOutput()
		name, _, _ := strings.Cut(setting, "=")
		if (err != nil) != fails || fails && !strings.Contains(string(out), "fakecuda: "+name) {
			t.Errorf("%s: %v, %q", setting, err, out)
		}
	}
}
