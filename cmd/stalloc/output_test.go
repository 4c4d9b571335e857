package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stalloc/live/perfetto"
	"stalloc/plan"
)

// outputs are the commands that write what -o names, and what that begins with.
func outputs(t *testing.T) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	profiler, ours := filepath.Join(dir, "profiler.json"), filepath.Join(dir, "ours.json")
	if err := os.WriteFile(profiler, []byte(`{"traceEvents": []}`), 0o644); err != nil {
		t.Fatal(err)
	}
	trace, err := perfetto.Create(ours, "it")
	if err != nil {
		t.Fatal(err)
	}
	trace.Mark(time.Now(), 0, "plan 1 serves", nil)
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"STALLOCP":          {"plan", "testdata/traces/tiny.csv"},
		"<!doctype html>":   {"report", "testdata/traces/tiny.csv"},
		`{"traceEvents": [`: {"merge", profiler, ours},
	}
}

// TestOutputToPipe: what is no file is written to and stays what it is.
func TestOutputToPipe(t *testing.T) {
	for begins, args := range outputs(t) {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, status := run(t, append(args, "-o", pipe)...)
		if status == 0 || !strings.Contains(errs, pipe) {
			t.Errorf("%s to a pipe without a reader: exit %d, %q", args[0], status, errs)
		}
		link := pipe + ".link"
		if err := os.Symlink(pipe, link); err != nil {
			t.Fatal(err)
		}
		// A reader need not wait for a writer, and has not read all while there is one.
		reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		got := make(chan string)
		go func() {
			text, err := io.ReadAll(reader)
			if err != nil {
				text = []byte(err.Error())
			}
			got <- string(text)
		}()
		if _, errs, status = run(t, append(args, "-o", link)...); status != 0 {
			t.Fatalf("%s to a pipe: exit %d, %s", args[0], status, errs)
		}
		_ = writer.Close()
		if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("%s: the pipe is %v now, %v", args[0], info, err)
		}
		if text := <-got; !strings.HasPrefix(text, begins) {
			t.Errorf("%s: the pipe got %.40q", args[0], text)
		}
	}
}

// TestOutputThroughLink: a link is followed, and stays.
func TestOutputThroughLink(t *testing.T) {
	for begins, args := range outputs(t) {
		dir := t.TempDir()
		link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
		if err := os.Symlink("file", link); err != nil {
			t.Fatal(err)
		}
		if _, errs, status := run(t, append(args, "-o", link)...); status != 0 {
			t.Errorf("%s: exit %d, %s", args[0], status, errs)
		}
		text, err := os.ReadFile(file)
		if to, _ := os.Readlink(link); to != "file" || err != nil ||
			!bytes.HasPrefix(text, []byte(begins)) {
			t.Errorf("%s: the link is to %q, the file %.40q, %v", args[0], to, text, err)
		}
	}
}

// TestOutputToStdout: "-" is standard output, and nothing else goes there.
func TestOutputToStdout(t *testing.T) {
	for begins, args := range outputs(t) {
		out, errs, status := run(t, append(args, "-o", "-")...)
		if status != 0 || !strings.HasPrefix(out, begins) {
			t.Errorf("%s: exit %d, %.40q, %s", args[0], status, out, errs)
		}
		if _, err := os.Lstat("-"); err == nil {
			os.Remove("-")
			t.Errorf("%s made a file that is called -", args[0])
		}
		if args[0] == "plan" {
			if _, err := plan.Decode(strings.NewReader(out), "-"); err != nil ||
				!strings.Contains(errs, "to hold") {
				t.Errorf("plan: %v; the table: %q", err, errs)
			}
		}
	}
}

// TestOutputOverInput: an output that is an input, or another output, is refused, and nothing is
// lost.
func TestOutputOverInput(t *testing.T) {
	for _, args := range outputs(t) {
		link := filepath.Join(t.TempDir(), "link")
		input, err := filepath.Abs(args[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(input, link); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(args[1])
		for _, path := range []string{args[1], link} {
			if _, errs, status := run(t, append(args, "-o", path)...); status == 0 ||
				!strings.Contains(errs, path+": would replace what it is made from") {
				t.Errorf("%s: exit %d, %q", args[0], status, errs)
			}
		}
		if after, _ := os.ReadFile(args[1]); !bytes.Equal(before, after) {
			t.Errorf("%s took away its input", args[0])
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	if _, errs, status := run(t, "plan", "-o", path, "--svg", filepath.Dir(path)+"/./x",
		"../../plan/solve/testdata/absent.csv", "--solver", "descent"); status == 0 ||
		!strings.Contains(errs, "names the same file") {
		t.Errorf("two outputs in one file: exit %d, %q", status, errs)
	}
}

// TestOutputIsTriedFirst: what cannot be written is said before anything is read.
func TestOutputIsTriedFirst(t *testing.T) {
	for _, command := range []string{"plan", "report", "merge"} {
		args := []string{command, "-o", filepath.Join(t.TempDir(), "none", "x"), "absent"}
		if command == "merge" {
			args = append(args, "absent")
		}
		if _, errs, status := run(t, args...); status != exitUsage ||
			!strings.Contains(errs, args[2]) {
			t.Errorf("%s: exit %d, %q", command, status, errs)
		}
	}
}

// TestPipeIn: what looks at a file before it reads it says so of a pipe; the others read one.
func TestPipeIn(t *testing.T) {
	for args, want := range map[string]int{"plan": exitUsage,
		"report --quick -o /dev/null": exitUsage, "replay --allocator native": 0} {
		in, err := os.Open("testdata/traces/tiny.csv")
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cat := exec.Command("cat")
		cat.Stdin = in
		pipe, err := cat.StdoutPipe()
		if err == nil {
			err = cat.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(append(strings.Fields(args), "/dev/stdin")...)
		var errs strings.Builder
		cmd.Stdin, cmd.Stderr = pipe, &errs
		_ = cmd.Run()
		pipe.Close()
		_ = cat.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want || want != 0 &&
			!strings.Contains(errs.String(), "/dev/stdin is a pipe") {
			t.Errorf("%s: exit %d, %s", args, got, errs.String())
		}
	}
}
