package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"stalloc/internal/output"
)

// List reads the pages of all processes that run, by their numbers. Pages that processes
// have left behind, because they were killed, are taken away. What cannot be read, or is
// not that user's who runs the process, is left out.
func List(folder string) ([]Process, error) {
	files, err := filepath.Glob(filepath.Join(folder, "stalloc-*-*"))
	if err != nil {
		return nil, err
	}
	var processes []Process
	for _, path := range files {
		p, owner, err := read(path)
		if err != nil || filepath.Base(path) != name(p.PID, p.Start) { // one process, one page
			continue
		}
		switch runs, err := p.runs(); {
		case err != nil:
		case !runs:
			_ = os.Remove(path) // another user's stays
		case p.belongsTo(owner):
			processes = append(processes, p)
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

// Own is this process's page, or none: what it publishes of itself. No other file is
// looked at.
func Own() []Process {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return nil
	}
	start, err := startOf(text)
	if err != nil {
		return nil
	}
	p, owner, err := read(filepath.Join(Folder, name(os.Getpid(), start)))
	if err != nil || p.PID != os.Getpid() || !p.belongsTo(owner) {
		return nil
	}
	return []Process{p}
}

// belongsTo reports whether a user's page may speak for the process: one who runs it, or
// root, who began it perhaps.
func (p *Process) belongsTo(user uint32) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if users, ok := strings.CutPrefix(line, "Uid:"); ok { // real, effective, saved, of files
			return user == 0 || slices.Contains(strings.Fields(users), strconv.Itoa(int(user)))
		}
	}
	return false
}

var errElsewhere = errors.New("a process of another container")

// runs reports whether the process still does; one that has ended and that its parent has not
// asked for yet does not. A number counts in its own space of them alone.
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
	return start == p.Start && !ended(text), err
}

// ended reports whether a process is a zombie, or dead: the third field.
func ended(stat []byte) bool {
	state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
	return len(state) > 0 && bytes.IndexByte([]byte("ZXx"), state[0]) >= 0
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
	return strings.TrimSpace(output.Printable(strings.ReplaceAll(string(text), "\x00", " ")))
}

// Rank is that of the process among those of its run, as torchrun sets it, or "".
func (p *Process) Rank() string { return output.Printable(p.environment("RANK")["RANK"]) }
