package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// List reads the pages of all processes that run, by their numbers. Pages that processes
// have left behind, because they were killed, are taken away. What cannot be read is left
// out: it is another user's, or gone by now.
func List(folder string) ([]Process, error) {
	files, err := paths(folder)
	if err != nil {
		return nil, err
	}
	var processes []Process
	for _, path := range files {
		p, err := Read(path)
		if err != nil {
			continue
		}
		switch runs, err := p.runs(); {
		case err != nil:
		case runs:
			processes = append(processes, p)
		default:
			_ = os.Remove(path) // another user's stays
		}
	}
	slices.SortFunc(processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return processes, nil
}

// Of reads the pages of one process.
func Of(folder string, pid int) (Process, error) {
	processes, err := List(folder)
	if err != nil {
		return Process{}, err
	}
	for _, p := range processes {
		if p.PID == pid {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("process %d has no page in %s: it does not use stalloc, has not come to its first step, or belongs to another user or container", pid, folder)
}

// Own is this process's page, or none: what it publishes of itself.
func Own() []Process {
	p, err := Of(Folder, os.Getpid())
	if err != nil {
		return nil
	}
	return []Process{p}
}

var errElsewhere = errors.New("a process of another container")

// runs reports whether the process still does. A number counts in its own space of them
// alone.
func (p *Process) runs() (bool, error) {
	var own syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &own); err == nil && own.Ino != p.space {
		return false, errElsewhere
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	start, err := startOf(text)
	return start == p.Start, err
}

// startOf is the 22nd field. The second, a name in parentheses, may hold anything.
func startOf(stat []byte) (uint64, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, errors.New("/proc/<pid>/stat is shorter than known")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Command is how the process was started, or "".
func (p *Process) Command() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}

// Rank is that of the process among those of its run, as torchrun sets it, or "".
func (p *Process) Rank() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		return ""
	}
	for _, pair := range strings.Split(string(text), "\x00") {
		if rank, ok := strings.CutPrefix(pair, "RANK="); ok {
			return rank
		}
	}
	return ""
}
