package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"stalloc/live/page"
	"stalloc/live/page/pagetest"
	"stalloc/live/perfetto"
)

// TestTop shows a process that runs, once and for programs.
func TestTop(t *testing.T) {
	w := pagetest.Start(t, "RANK=5")
	w.Do(t, "again")
	pid := fmt.Sprint(w.Process.Pid)
	out, errs, status := run(t, "top", "--pid", pid)
	if status != 0 || errs != "" || !strings.Contains(out, "writer r5    0 ") ||
		!strings.Contains(out, "plain") {
		t.Errorf("exit %d, %s\n%s", status, errs, out)
	}
	out, errs, status = run(t, "top", "--pid", pid, "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != 2 {
		t.Fatalf("exit %d, %s\n%s", status, errs, out)
	}
	var r topResult
	if err := json.Unmarshal([]byte(lines[0]), &r); err != nil {
		t.Fatal(err)
	}
	if r.PID != w.Process.Pid || r.Rank != "5" || r.Requests != 160 || r.HitShare != 0.5 ||
		r.StepUS <= 0 || r.Reserved != 2<<20 {
		t.Errorf("%+v", r)
	}
	out, _, status = run(t, "top", "--pid", pid, "--format", "csv")
	if head, _, _ := strings.Cut(out, "\n"); status != 0 ||
		!strings.HasPrefix(head, "version,pid,rank,command,device,at,") ||
		!strings.HasSuffix(head, ",wait_ns,lent") {
		t.Errorf("exit %d\n%s", status, out)
	}
}

// TestTopWithoutProcesses says so, and that is no failure.
func TestTopWithoutProcesses(t *testing.T) {
	out, errs, status := run(t, "top", "--folder", t.TempDir())
	if status != 0 || out != "" || !strings.Contains(errs, "no process here") {
		t.Errorf("exit %d, %q, %q", status, out, errs)
	}
	if _, errs, status = run(t, "top", "--pid", "1", "--folder",
		t.TempDir()); status != exitFailed || !strings.Contains(errs, "process 1 has no page") {
		t.Errorf("exit %d, %q", status, errs)
	}
	for _, flag := range []string{"--metrics=70000", "--metrics=-1", "--metrics=0",
		"--listen=127.0.0.1", "--sort=rank", "--interval=1ms", "--folder=/nowhere"} {
		if _, errs, status = run(t, "top", flag); status != exitUsage ||
			!strings.Contains(errs, strings.Split(flag, "=")[0]) {
			t.Errorf("%s: exit %d, %q", flag, status, errs)
		}
	}
}

// TestTopMetrics answers Prometheus until it is interrupted.
func TestTopMetrics(t *testing.T) {
	w := pagetest.Start(t)
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	cmd := command("top", "--metrics", fmt.Sprint(port))
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 256)
	n, _ := said.Read(line)
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "stalloc: "))
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if want := fmt.Sprintf(`stalloc_fallback_total{device="0",pid="%d",rank=""} 7`,
		w.Process.Pid); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, no %s in\n%s", err, want, text)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTopTable: rates follow from what was seen last, and a process that does nothing is idle.
func TestTopTable(t *testing.T) {
	at := time.Now()
	sample := func(after time.Duration, requests, hits, steps uint64) page.Sample {
		return page.Sample{At: at.Add(after), Stats: page.Stats{Requests: requests, Hits: hits,
			Steps: steps, PlanGeneration: 2, DriverNS: requests * 1000}}
	}
	earlier := map[string]page.Sample{"x 0": sample(-2*time.Second, 0, 0, 0)}
	table := (&topFlags{}).table([]page.Process{{PID: 7, Path: "x", Devices: []page.Device{
		{Ordinal: 0, Now: sample(0, 1000, 900, 20)}, {Ordinal: 1, Now: sample(-time.Minute, 1, 1,
			1)},
	}}}, earlier, 0).Render()
	for _, want := range []string{"90.0", "100ms", "#2", "idle 1m0s"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if earlier["x 0"].Requests != 1000 {
		t.Error("the sample is not taken again")
	}
}

// TestTopKeys: on a terminal top has the other screen, s sorts, q quits, and the terminal is as it
// was.
func TestTopKeys(t *testing.T) {
	w := pagetest.Start(t)
	person, program := terminal(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("top", "--pid", fmt.Sprint(w.Process.Pid), "--interval", "100ms")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen, buffer := "", make([]byte, 1<<16)
	until := func(want string) {
		for !strings.Contains(seen, want) {
			n, err := person.Read(buffer)
			if seen += string(buffer[:n]); err != nil {
				t.Fatalf("%v: no %q in %q", err, want, seen)
			}
		}
	}
	until("s sorts: by pid")
	if !strings.HasPrefix(seen, enterScreen) {
		t.Errorf("%.40q", seen)
	}
	person.WriteString("s")
	until("s sorts: by load")
	person.WriteString("q")
	until(leaveScreen)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil ||
		*after != *before {
		t.Errorf("%+v, %v", after, err)
	}
}

// TestTopOrder: every name that --sort takes sorts, the largest first.
func TestTopOrder(t *testing.T) {
	device := func(n uint64) page.Device {
		return page.Device{Ordinal: int(n), Now: page.Sample{At: time.Now(),
			Stats: page.Stats{PeakAllocated: n << 20, Reserved: n << 21, PeakReserved: n * n << 21,
				DriverNS: n * 1e6, Steps: n}},
			Before: page.Sample{At: time.Now().Add(-time.Second)}}
	}
	processes := []page.Process{{PID: 7, Devices: []page.Device{device(1), device(2)}}}
	for name, first := range map[string]string{"pid": "0 ", "load": "2.00 MiB",
		"reserved": "4.00 MiB", "waste": "75.0", "driver": "0.2", "step": "1s"} {
		rows := strings.Split((&topFlags{sort: name}).table(processes, nil, 0).Render(), "\n")
		if !strings.Contains(rows[2], first) {
			t.Errorf("%s: no %q first in %q", name, first, rows)
		}
	}
	if name := nextOrder("step"); name != "pid" {
		t.Errorf("behind step comes %s", name)
	}
}

// TestTopIsAsWideAsTheTerminal: no row wraps, and what matters most stays.
func TestTopIsAsWideAsTheTerminal(t *testing.T) {
	now := page.Sample{At: time.Now(), Stats: page.Stats{
		Allocated: 30 << 30, PeakAllocated: 31 << 30, Reserved: 32 << 30, PeakReserved: 32 << 30,
		Steps:              9,
		NativePeakReserved: 33 << 30, PlanGeneration: 3, Requests: 9000, Hits: 900, DriverNS: 1e6,
	}}
	d := page.Device{Now: now, Before: page.Sample{At: now.At.Add(-time.Second)}}
	processes := []page.Process{{PID: 4194303, Devices: []page.Device{d}}}
	for _, width := range []int{80, 100, 120} {
		rows := strings.Split((&topFlags{}).table(processes, nil, width).Render(), "\n")
		for _, row := range rows {
			if n := text.StringWidth(row); n > width {
				t.Errorf("%d columns have %q, of %d", width, row, n)
			}
		}
		for _, name := range []string{"load", "reserved", "waste", "step"} {
			if !strings.Contains(rows[0], name) {
				t.Errorf("%d columns: no %s in %q", width, name, rows[0])
			}
		}
	}
	if all := (&topFlags{}).table(processes, nil, 0).Render(); !strings.Contains(all, "plan") ||
		!strings.Contains(all, "30.00 GiB") {
		t.Errorf("no terminal: %s", all)
	}
}

func TestShortCommand(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/python -u ./runs/train.py --lr 1": "train.py",
		"python -m torch.distributed.run":           "torch.distributed.run", "/opt/serve": "serve",
		"": "?",
	} {
		if got := shortCommand(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// TestMerge puts a trace into a profiler's.
func TestMerge(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	trace, err := perfetto.Create(path("run.json"), "train.py")
	if err != nil {
		t.Fatal(err)
	}
	trace.Mark(time.Now(), 0, "plan 1 serves", nil)
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("profiler.json"),
		[]byte(`{"traceEvents": [{"name": "gemm"}], "baseTimeNanoseconds": 5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, status := run(t, "merge", path("profiler.json"), path("run.json"), "-o",
		path("both.json")); status != 0 {
		t.Fatalf("exit %d: %s", status, errs)
	}
	text, err := os.ReadFile(path("both.json"))
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), "plan 1 serves") ||
		!strings.Contains(string(text), "gemm") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, args := range [][]string{{path("run.json"), path("run.json")},
		{path("none"), path("run.json")}} {
		_, errs, status := run(t, "merge", args[0], args[1], "-o", path("no.json"))
		if _, err := os.Stat(path("no.json")); status != exitFailed || errs == "" || err == nil {
			t.Errorf("%q: exit %d, %q, the output: %v", args, status, errs, err)
		}
	}
	if _, errs, status := run(t, "merge", path("profiler.json"), filepath.Dir(path("run.json")),
		"-o", path("no.json")); status != exitFailed || !strings.Contains(errs, "is a directory") {
		t.Errorf("a folder: %d, %s", status, errs)
	}
	if _, errs, status := run(t, "merge", path("run.json"), path("profiler.json"), "-o",
		path("no.json")); status != exitFailed ||
		!strings.Contains(errs, "profiler.json: the second is not a trace of stalloc") {
		t.Errorf("swapped: exit %d, %q", status, errs)
	}
	if _, errs, status := run(t, "merge", "x", "-o", "y"); status != exitUsage ||
		!strings.Contains(errs, "but 1 are named") {
		t.Errorf("exit %d, %q", status, errs)
	}
}

func TestStepText(t *testing.T) {
	for step, want := range map[time.Duration]string{
		11161 * time.Microsecond: "11.2ms", 999 * time.Millisecond: "999ms",
		999600 * time.Microsecond: "1s",
		1234 * time.Millisecond:   "1.23s", 98765 * time.Millisecond: "98.8s",
		20 * time.Minute: "1200s",
	} {
		if got := stepText(step); got != want {
			t.Errorf("%v: %s, expected %s", step, got, want)
		}
	}
}
