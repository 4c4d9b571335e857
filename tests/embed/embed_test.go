// Package embed builds the examples of embedding, in Go and in C, and runs them
// over the simulated driver, as somebody would who tries them out: that they end
// well, that they would notice if blocks overlapped, and that they say who else
// holds the memory when there is none left. The C example needs what make build
// puts into place.
package embed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"stalloc/tests/fakecuda/fake"
)

// What all runs share: three threads, sizes that need about 60 MiB, and the last step four
// times more.
const (
	recording = "../traces/llama_naive.csv.gz"
	scale     = "1024"
	requests  = "requests  49299, in 9 steps"
)

var (
	driver    string // the simulated one
	goExample example
	cExample  example
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "embed")
	if err == nil {
		err = build(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

func build(folder string) (err error) {
	if _, err = fake.Libraries(); err != nil {
		return err
	}
	if driver, err = fake.Build(folder); err != nil {
		return err
	}
	goExample = example{"Go", filepath.Join(folder, "embed_go"),
		[]string{"-trace", recording, "-driver", driver, "-scale", scale, "-threads", "3", "-steps",
			"4", "-pause", "0", "-at-step"}, nil}
	cExample = example{"C", filepath.Join(folder, "embed_c"), []string{"-s", scale, "-t", "3", "-n",
		"4", recording}, []string{"STALLOC_CONF=driver:" + driver, "XDG_CACHE_HOME=" + folder}}
	return errors.Join(
		command("go", "build", "-o", folder, "stalloc/examples/embed_go"),
		command("make", "-C", "../../examples/embed_c", "OUT="+folder))
}

// command runs a program to its end.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func compile(t *testing.T, library string, args ...string) {
	t.Helper()
	args = append([]string{"-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
		library}, args...)
	if err := command("gcc", args...); err != nil {
		t.Fatal(err)
	}
}

// example is one of the two programs, ready to run.
type example struct {
	name, path string
	args, env  []string
}

// run returns the exit status and what was printed.
func (e example) run(t *testing.T, env ...string) (status int, out, errs string) {
	t.Helper()
	cmd := exec.Command(e.path, e.args...)
	cmd.Env = append(append(os.Environ(), e.env...), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// number finds a number in an example's report.
func number(t *testing.T, out, pattern string) float64 {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no %q in\n%s", pattern, out)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// load is the peak of one thread's blocks, in MiB. How many threads are at their peaks
// at once is the scheduler's affair.
const load = 19.9

// TestRun replays the recording and reads the reports.
func TestRun(t *testing.T) {
	for _, e := range []example{goExample, cExample} {
		status, out, errs := e.run(t)
		if status != 0 || !strings.Contains(out, requests) ||
			!strings.Contains(out, "every byte as it was left") {
			t.Fatalf("%s: exit status %d\n%s%s", e.name, status, out, errs)
		}
		hits, misses := number(t, out, `plan +(\d+) hits`), number(t, out, `hits, (\d+) misses`)
		t.Logf("%s:\n%s", e.name, out)
		// Beside the program a plan is made when there is time for it.
		if share := number(t, out, `plans; ([\d.]+) %`); e.name == "Go" &&
			(hits < misses || share < 25) {
			t.Errorf("%s: %v hits, %v misses, %v %% of all requests", e.name, hits, misses, share)
		}
		peak, reserved := number(t, out, `memory +([\d.]+) MiB`), number(t, out,
			`peak, ([\d.]+) MiB`)
		if peak < load || reserved < peak || reserved > 3*peak {
			t.Errorf("%s: %v MiB reserved for %v MiB", e.name, reserved, peak)
		}
	}
}

// TestOverlapIsFound: the C example over a library that hands out a block twice.
// The Go example's own test does the same to it.
func TestOverlapIsFound(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "overlap.so")
	compile(t, broken, "testdata/overlap.c", "-ldl")
	status, out, errs := cExample.run(t, "LD_PRELOAD="+broken)
	if status != 1 || !strings.Contains(errs, "its memory was given to somebody else") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}

// TestOutOfMemory on a device that is far too small, beside other processes that
// only NVML knows of.
func TestOutOfMemory(t *testing.T) {
	nvml := t.TempDir()
	compile(t, filepath.Join(nvml, "libnvidia-ml.so.1"), "../../cuda/nvml/testdata/nvml.c")
	for _, e := range []example{goExample, cExample} {
		const told = "process 1 60.00 GiB"
		for _, c := range []struct{ path, want, not string }{
			{nvml, told, ""},
			{"/nowhere", "held by stalloc", told},
		} {
			status, out, errs := e.run(t, "FAKECUDA_CAPACITY=16777216", "LD_LIBRARY_PATH="+c.path)
			errs = strings.Join(strings.Fields(errs), " ")
			ok := status == 1 && strings.Contains(errs, "of 16.00 MiB") &&
				strings.Contains(errs, c.want)
			if !ok || c.not != "" && strings.Contains(errs, c.not) {
				t.Errorf("%s, NVML in %s: exit status %d\n%s%s", e.name, c.path, status, out, errs)
			}
		}
	}
}

// TestMistakes in the arguments are told, with exit status 1 or, for usage, 2.
func TestMistakes(t *testing.T) {
	cut := filepath.Join(t.TempDir(), "cut.csv")
	if err := os.WriteFile(cut, []byte("# workload cut\n# setup\na,0,512,0,0\na,1,51"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e    example
		args []string
		env  string
		want string
		code int
	}{
		{goExample, []string{"-trace", cut, "-driver", driver}, "", cut + ":4", 1},
		{goExample, []string{"-trace", recording, "-driver", "/nowhere/libcuda.so.1"}, "",
			"make build", 1},
		{goExample, []string{"-scale", "0"}, "", "at least 1", 2},
		{goExample, []string{"surplus"}, "", "surplus: expected flags only", 2},
		{cExample, []string{cut}, "STALLOC_CONF=driver:" + driver, cut + ":4", 1},
		{cExample, []string{"/nowhere/trace.csv.gz"}, "STALLOC_CONF=driver:" + driver,
			"/nowhere/trace.csv.gz", 1},
		{cExample, []string{recording}, "STALLOC_CONF=driver:/nowhere/libcuda.so.1", "make build",
			1},
		{cExample, []string{"-s", scale, "-n", "1", "-p", "0", recording},
			"STALLOC_CONF=engine:/nowhere/engine.so,driver:" +
				driver, "requests were plain driver allocations", 0},
		{cExample, []string{recording}, "STALLOC_CONF=speed:long", "unknown key", 1},
		{cExample, []string{"-s", "0", recording}, "STALLOC_CONF=driver:" + driver,
			"usage: embed_c", 2},
		{cExample, nil, "STALLOC_CONF=driver:" + driver, "usage: embed_c", 2},
		{goExample, []string{"-steps", "-1"}, "", "at least 1", 2},
		{cExample, []string{"-n", "-1", recording}, "STALLOC_CONF=driver:" + driver,
			"usage: embed_c", 2},
	} {
		c.e.args = c.args
		status, out, errs := c.e.run(t, c.env)
		if status != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s %s: exit status %d, want %d and %q\n%s%s", c.e.name, c.args, status,
				c.code, c.want, out, errs)
		}
	}
}

// TestInstall: a C program builds with what make install has put into place and its
// pkg-config file says, and runs.
func TestInstall(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "usr")
	if err := command("make", "-C", "../..", "install", "PREFIX="+prefix); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(prefix, "lib", "pkgconfig", "stalloc.pc"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		for _, sign := range []string{"=", ": "} {
			name, value, ok := strings.Cut(strings.TrimSpace(line), sign)
			if ok && !strings.ContainsAny(name, ": $") {
				values[name] = os.Expand(value, func(name string) string { return values[name] })
				break
			}
		}
	}
	program := filepath.Join(t.TempDir(), "embed_c")
	sources, err := filepath.Glob("../../examples/embed_c/*.c")
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields("-std=gnu11 -pthread "+values["Cflags"]+" -o "+program),
		sources...)
	if err := command("gcc",
		append(args, append(strings.Fields(values["Libs"]), "-ldl")...)...); err != nil {
		t.Fatalf("%v with %q", err, values)
	}
	installed := example{"C", program, []string{"-s", "4096", "-n", "0", "-p", "0", recording},
		cExample.env}
	status, out, errs := installed.run(t)
	if status != 0 || !strings.Contains(out, "with stalloc "+values["Version"]+":") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	if err := command("make", "-C", "../..", "uninstall", "PREFIX="+prefix); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(prefix, "*", "*stalloc*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}
