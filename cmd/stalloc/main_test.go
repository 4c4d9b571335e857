package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"stalloc/internal/mem"
	"stalloc/live/page"
	"stalloc/plan"
	"stalloc/replay"
	"stalloc/report"
)

// asCommand makes the test binary behave as stalloc itself, so that the tests
// meet a real process: its exit status, its two outputs and its signals.
const asCommand = "STALLOC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		version = "v0.0.0-test"
		main()
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// run returns what a command line printed and its exit status.
func run(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var (
	secondsJSON = regexp.MustCompile(`"seconds":[0-9.e-]+`)
	secondsCell = regexp.MustCompile(`(?m) [0-9]+\.[0-9]{2}( \|)?$`)
	secondsCSV  = regexp.MustCompile(`(?m),[0-9.e-]+$`)
)

// TestScripts runs the command lines in testdata/cli; -rewrite renews what
// they print. Times are blotted out.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "cli"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			out, errs, status := run(t, strings.Fields(d.Input)...)
			out = secondsJSON.ReplaceAllString(out, `"seconds":0`)
			if strings.HasPrefix(d.Input, "plan") {
				out = secondsCell.ReplaceAllString(out, " 0.00$1")
				out = secondsCSV.ReplaceAllString(out, ",0")
			}
			var b strings.Builder
			b.WriteString(out)
			if errs != "" {
				fmt.Fprintf(&b, "-- stderr\n%s", errs)
			}
			if status != 0 {
				fmt.Fprintf(&b, "-- exit %d\n", status)
			}
			return b.String()
		})
	})
}

func TestPlanFileIsReadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tiny.plan")
	out, errs, status := run(t, "plan", "--json", "-o", file, "testdata/traces/tiny.csv")
	if status != 0 {
		t.Fatalf("exit %d: %s", status, errs)
	}
	p, err := plan.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var said planResult
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if read := summary("tiny", p, 0); read.Requests != said.Requests || read.Hold != said.Hold ||
		read.Load != said.Load || read.Steady != said.Steady {
		t.Errorf("the file holds %+v, printed was %+v", read, said)
	}
	if said.Requests == 0 || said.Hold < said.Load {
		t.Errorf("%+v", said)
	}
	for _, args := range [][]string{{"replay", file}, {"plan", file},
		{"plan", "--solver", "exact", file}, {"diff", file, file}} {
		if _, errs, status := run(t, args...); status != exitFailed ||
			!strings.Contains(errs, "a plan file; stalloc report reads it") {
			t.Errorf("%v: exit %d, %s", args, status, errs)
		}
	}
}

func TestPlanFileThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing", "tiny.plan")
	out, errs, status := run(t, "plan", "-o", file, "testdata/traces/tiny.csv")
	if status != exitUsage || out != "" || !strings.Contains(errs, file) ||
		!strings.Contains(errs, "-o") {
		t.Errorf("exit %d, stdout %q, stderr %q", status, out, errs)
	}
}

// TestReplayAll replays through every allocator, without a plan and with one,
// and checks what holds for any of them.
func TestReplayAll(t *testing.T) {
	for mode, flags := range map[string][]string{replay.Cold: nil, replay.Warm: {"--warm"}} {
		out, errs, status := run(t, append([]string{"replay", "--json", "--allocator",
			strings.Join(replay.Names(), ","), "testdata/traces/tiny.csv"}, flags...)...)
		if status != 0 || errs != "" {
			t.Fatalf("%s: exit %d: %s", mode, status, errs)
		}
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(replay.Allocators) {
			t.Fatalf("%s: %d lines for %d allocators", mode, len(lines), len(replay.Allocators))
		}
		for i, a := range replay.Allocators {
			var r replay.Result
			if err := json.Unmarshal([]byte(lines[i]), &r); err != nil {
				t.Fatal(err)
			}
			if r.Allocator != a.Name || r.Trace != "tiny" || r.Requests != 90 || r.OOM {
				t.Errorf("%s: %+v", mode, r)
			}
			if r.PeakLoad != 61875200 || r.PeakReserved < r.PeakLoad || r.DriverCalls <= 0 ||
				r.DriverTimeUS <= 0 {
				t.Errorf("%s: %+v", mode, r)
			}
			if want := 1 - float64(r.PeakLoad)/float64(r.PeakReserved); r.Fragmentation != want {
				t.Errorf("%s: fragmentation %v, want %v", mode, r.Fragmentation, want)
			}
			if planned := r.Hits+r.Misses > 0; planned != a.Plans {
				t.Errorf("%s: hits and misses of %+v", mode, r)
			}
			if warm := r.Mode == replay.Warm; warm != (a.Plans && mode == replay.Warm) {
				t.Errorf("%s: mode of %+v", mode, r)
			}
		}
	}
}

// TestInterrupt stops a long command after its first result. The command
// cannot end by itself before: its output is not read until it was told.
func TestInterrupt(t *testing.T) {
	args := []string{"plan", "--json"}
	for range 4000 {
		args = append(args, "testdata/traces/tiny.csv")
	}
	cmd := command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(pipe)
	if !out.Scan() {
		t.Fatal("no output")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	lines := 1
	for out.Scan() {
		if !json.Valid(out.Bytes()) {
			t.Errorf("line %d is cut: %q", lines, out.Text())
		}
		lines++
	}
	err = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != exitInterrupted {
		t.Errorf("exit %d (%v), want %d", status, err, exitInterrupted)
	}
	if errs.String() != "stalloc: interrupted\n" {
		t.Errorf("stderr %q", errs.String())
	}
	if lines >= len(args)-2 {
		t.Errorf("all %d results were printed", lines)
	}
}

// TestInterruptedBefore: a command that was stopped before it began does nothing.
func TestInterruptedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if status := execute(ctx, []string{"plan", "testdata/traces/tiny.csv"}, &out,
		&errs); status != exitInterrupted {
		t.Errorf("exit %d, want %d", status, exitInterrupted)
	}
	if out.Len() > 0 || errs.String() != "stalloc: interrupted\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

// stopping is a context that is over when it has been asked so many times.
type stopping struct {
	context.Context
	left int
}

func (s *stopping) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedReplay: wherever a replay is interrupted, nothing of it has failed.
func TestInterruptedReplay(t *testing.T) {
	for _, flags := range [][]string{nil, {"--smallest"}, {"--wide"}} {
		args := append([]string{"replay", "--allocator", "native,gmlake",
			"testdata/traces/tiny.csv"}, flags...)
		halves := 0
		for n := 0; ; n++ {
			var out, errs bytes.Buffer
			status := execute(&stopping{context.Background(), n}, args, &out, &errs)
			if status == 0 {
				break
			}
			if out.Len() > 0 {
				halves++
			}
			if status != exitInterrupted || errs.String() != "stalloc: interrupted\n" ||
				strings.Contains(out.String(), "failed") {
				t.Fatalf("%v, interrupted at the %dth look: exit %d, %q\n%s", args, n, status,
					errs.String(), out.String())
			}
		}
		if halves == 0 {
			t.Errorf("%v was never interrupted in its midst", args)
		}
	}
}

// TestFullHelp: so is a help.
func TestFullHelp(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"--help"}, {"replay", "--help"}, {"version"}, {"--version"},
		{"help", "keys"}, {"completion", "bash"}} {
		var errs bytes.Buffer
		if status := execute(context.Background(), args, full, &errs); status != exitFailed ||
			!strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit %d, stderr %q", args, status, errs.String())
		}
	}
}

// TestFullOutput: results that cannot be written are a failure.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, flag := range []string{"--json", "--json=false"} {
		var errs bytes.Buffer
		status := execute(context.Background(), []string{"plan", flag, "testdata/traces/tiny.csv"},
			full, &errs)
		if status != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: exit %d, stderr %q", flag, status, errs.String())
		}
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"80GiB", "80GiB"}, {"1.5g", "1.50GiB"}, {"512 MiB", "512MiB"}, {"700B",
			"700B"}, {"4194304", "4MiB"},
	} {
		var s size
		if err := s.Set(c.text); err != nil || s.String() != c.want {
			t.Errorf("%q became %q, error %v, want %q", c.text, s.String(), err, c.want)
		}
		again := s
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q does not read back: %v", s.String(), err)
		}
	}
	for _, bad := range []string{"0", "-1", "much", "", "40", "512"} {
		if err := new(size).Set(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestKeys: every key that is printed is explained, and nothing else is.
func TestKeys(t *testing.T) {
	for i, printed := range []any{replay.Result{}, replay.Step{}, report.Diff{}, report.DiffRun{},
		report.DiffGroup{}, report.DiffStep{}, fitResult{}, offloadResult{}, planResult{},
		solveResult{}, frontResult{}, tuneResult{}, topResult{}, page.Stats{}} {
		var tags, explained []string
		of := reflect.TypeOf(printed)
		for j := range of.NumField() {
			if !of.Field(j).Anonymous {
				// which all have
				if tag, _, _ := strings.Cut(of.Field(j).Tag.Get("json"), ","); tag != "version" {
					tags = append(tags, tag)
				}
			}
		}
		for _, k := range keysOf[i].keys {
			explained = append(explained, k.name)
		}
		if !slices.Equal(tags, explained) {
			t.Errorf("%v prints %q, explained are %q", of, tags, explained)
		}
	}
}

// TestKeysOfEachCommand: keys explains what each command with a --format prints.
func TestKeysOfEachCommand(t *testing.T) {
	said := newKeys().Long
	for _, cmd := range newRoot().Commands() {
		if cmd.Flags().Lookup("format") != nil && !strings.Contains(said, "stalloc "+cmd.Name()) {
			t.Errorf("the keys of %s are not explained", cmd.Name())
		}
	}
}

// TestVersion: every object that commands print for programs says its version.
func TestVersion(t *testing.T) {
	for _, result := range []any{replayResult{versioned: formatVersion},
		&report.Diff{Version: report.DiffVersion}, fitResult{versioned: formatVersion},
		planResult{versioned: formatVersion},
		solveResult{versioned: formatVersion}, frontResult{versioned: formatVersion},
		topResult{versioned: formatVersion}} {
		text, err := json.Marshal(result)
		if err != nil || !strings.HasPrefix(string(text), `{"version":1,`) {
			t.Errorf("%T: %v, %.40s", result, err, text)
		}
	}
}

// TestWidth: tables of the longest names there are fit into 80 columns.
func TestWidth(t *testing.T) {
	for _, m := range measures {
		c := comparison{measure: m}
		for _, a := range []string{"native", "expandable", "gmlake", "stalloc-noplan"} {
			c.add(replay.Result{Trace: "qwen2moe_recompute_of_long_name", Allocator: a, Requests: 9,
				Hits: 9, SteadyTimeUS: 1,
				PeakLoad: 999 * mem.GiB, PeakReserved: 1023 * mem.GiB, FitsIn: 1023 * mem.GiB,
				FullSpeedIn: 1023 * mem.GiB, Fragmentation: 0.5, SteadyDriverTimeUS: 1})
		}
		drawn, notes := c.table(true)
		for line := range strings.Lines(drawn.Render() + "\n" + notes) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", m.name, n, line)
			}
		}
	}
}

// TestAverages: the average is over what every allocator got through.
func TestAverages(t *testing.T) {
	m, err := findMeasure("waste")
	if err != nil {
		t.Fatal(err)
	}
	c := comparison{measure: m, colours: true}
	for i, r := range []replay.Result{{Fragmentation: 0.1}, {Fragmentation: 0.2},
		{Fragmentation: 0.3}, {Fragmentation: 0.4}, {OOM: true}, {Fragmentation: 0.5}} {
		r.Trace, r.Allocator, r.Requests = string(rune('a'+i/2)), []string{"x", "y"}[i%2], 1
		c.add(r)
	}
	drawn, _ := c.table(true)
	if out := drawn.Render(); !strings.Contains(out, "average of 2") ||
		!strings.Contains(out, "20.00") || !strings.Contains(out, "30.00") ||
		!strings.Contains(out, "full") {
		t.Errorf("\n%s", out)
	}
	if best, ok := c.best(c.rows[2]); !ok || best != "50.00" {
		t.Errorf("the best where one device was full: %q, %v", best, ok)
	}
}

// TestLeast: five characters, and no less than there is.
func TestLeast(t *testing.T) {
	for x, want := range map[mem.Bytes]string{
		21_692_940_288: "20.21 GiB", 100*mem.GiB +
			mem.GiB/8: "100.2 GiB", 100 * mem.GiB: "100.0 GiB", 1022*mem.GiB +
			1: "1023 GiB", 7: "7 B",
	} {
		if got := least(float64(x)); got != want {
			t.Errorf("%d: %s, want %s", int64(x), got, want)
		}
	}
}
