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
			args := append([]string{"-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program}, flags...)
			args = append(args, filepath.Join("testdata", "stress.c"), filepath.Join(cuda, "driver.c"),
				filepath.Join(cuda, "device.c"), filepath.Join(cuda, "stream.c"), "-ldl", "-lpthread")
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
