package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"stalloc/internal/mem"
	"stalloc/plan/solve"
	"stalloc/plan/solve/problemfile"
	"stalloc/trace"
)

// readTwice refuses a pipe where a file's first bytes are looked at before it is read: they would
// be lost.
func readTwice(path string) error {
	if at, err := os.Stat(path); err == nil && at.Mode()&os.ModeNamedPipe != 0 {
		return fmt.Errorf("%s is a pipe, and a file's kind is looked at before it is read: write it to a file, and name that", path)
	}
	return nil
}

// isProblem reports whether a file is one of a problem, by its first bytes. What cannot be read is
// none: reading it says why.
func isProblem(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	in, err := unzipped(f)
	if err != nil {
		return false
	}
	head, _ := in.Peek(8)
	return problemfile.Is(head)
}

// unzipped reads what gzip may have packed.
func unzipped(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		out, err := trace.Unzip(in)
		return bufio.NewReader(out), err
	}
	return in, nil
}

func readProblem(path string) (*problemfile.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := unzipped(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return problemfile.Read(in, path)
}

// problem is that of a file: itself, or the last step of a recording.
func problem(path string) (*problemfile.File, error) {
	if isProblem(path) {
		return readProblem(path)
	}
	tr, err := readRun(path)
	if err != nil {
		return nil, err
	}
	f := lastStep(tr)
	if len(f.IDs) == 0 {
		return nil, fmt.Errorf("%s: no request is in its last step: record a longer run", path)
	}
	return f, nil
}

// lastStep is what the last step of a recording asked for, or all of one without steps. What
// outlives the step ends with it.
func lastStep(tr *trace.Trace) *problemfile.File {
	from, to := 0, len(tr.Events)
	if steps := tr.Steps(); len(steps) > 0 {
		from, to = steps[len(steps)-1][0], steps[len(steps)-1][1]
	}
	f, at := &problemfile.File{}, map[int64]int{}
	for i, e := range tr.Events[from:to] {
		switch e.Kind {
		case trace.Alloc:
			at[e.ID] = len(f.IDs)
			f.IDs = append(f.IDs, fmt.Sprint(e.ID))
			f.Problem.Buffers = append(f.Problem.Buffers, solve.Buffer{Lower: mem.Tick(i),
				Upper: mem.Tick(to - from), Size: mem.Round(e.Size)})
		case trace.FreeCompleted:
			if k, here := at[e.ID]; here {
				f.Problem.Buffers[k].Upper = mem.Tick(i)
				delete(at, e.ID)
			}
		}
	}
	return f
}
