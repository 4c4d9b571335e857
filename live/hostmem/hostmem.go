// Package hostmem is memory of the host for what does not fit the Go heap, and the answer to
// whether there is any: what is taken in full must not end a process, ours or another's.
package hostmem

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stalloc/internal/mem"
)

// ErrFull says that the host has no room.
var ErrFull = errors.New("the host has too little memory")

// Check returns an error that matches ErrFull if so much would be more than what the host, or a
// control group of this process, has left. What cannot be known does not count.
func Check(n mem.Bytes) error { return check("/", n) }

// Room returns how much of n bytes may be taken for good: a tenth of what the host, or a control
// group of this process, has in all stays free, for the program goes on. If that is less than n, an
// error that matches ErrFull says so.
func Room(n mem.Bytes) (mem.Bytes, error) { return room("/", n) }

// Ample reports whether half of what the host, and each control group of this process, has in all
// is free. What cannot be known is.
func Ample() bool { return ample("/") }

func ample(root string) bool {
	left, _ := leftIn(root, 2)
	return left > 0
}

func room(root string, n mem.Bytes) (mem.Bytes, error) {
	left, whose := leftIn(root, 10)
	if n > left {
		return left, fmt.Errorf("%w: %v are needed, and %s can spare %v", ErrFull, n, whose, left)
	}
	return n, nil
}

func check(root string, n mem.Bytes) error {
	left, whose := leftIn(root, math.MaxInt64)
	if n > left {
		return fmt.Errorf("%w: %v are needed, and %s has %v left", ErrFull, n, whose, left)
	}
	return nil
}

// Take returns memory of whole pages, in huge ones where the host has them: none is there before
// Fill has been called for it. Give gives it back.
func Take(n mem.Bytes) ([]byte, error) {
	page := mem.Bytes(os.Getpagesize())
	n = (n + page - 1) / page * page
	memory, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%w: %v cannot be had: %w", ErrFull, n, err)
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // it is twice as fast with them, and right without
	// A child has no use for it. Were its pages shared after a fork, the first write here would
	// copy them, and what the driver has pinned would be the child's.
	_ = unix.Madvise(memory, unix.MADV_DONTFORK)
	return memory, nil
}

// Fill has the pages of memory that Take has returned be there, with zeros if they were not.
func Fill(memory []byte) error {
	err := unix.Madvise(memory, unix.MADV_POPULATE_WRITE)
	switch {
	case errors.Is(err, unix.EINVAL): // before Linux 5.14
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 0
		}
	case err != nil:
		return fmt.Errorf("%w: %v cannot be had: %w", ErrFull, mem.Bytes(len(memory)), err)
	}
	return nil
}

// Give gives back what Take has returned.
func Give(memory []byte) error { return unix.Munmap(memory) }

// leftIn returns the least that is left beside one part in so many of all, and whose it is.
func leftIn(root string, part mem.Bytes) (left mem.Bytes, whose string) {
	left = math.MaxInt64
	least := func(n, all mem.Bytes, of string) {
		if n = max(n-all/part, 0); n < left {
			left, whose = n, of
		}
	}
	if info, err := os.ReadFile(path.Join(root, "proc/meminfo")); err == nil {
		var all, kib mem.Bytes
		for line := range strings.Lines(string(info)) {
			if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil {
				all = kib * mem.KiB
			}
			if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
				least(kib*mem.KiB, all, "the host")
			}
		}
	}
	groups, _ := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, limit, used := "sys/fs/cgroup", "memory.max", "memory.current"
		switch {
		case parts[1] == "memory": // the first version
			top, limit, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		case parts[0] != "0":
			continue
		}
		// Every group above has a limit of its own. In a container the path may be the
		// host's, and the top is the group's.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			folder := path.Join(root, top, group)
			most, limited := number(path.Join(folder, limit))
			now, known := number(path.Join(folder, used))
			if limited && known {
				least(most-now+reclaimable(folder), most, "the control group "+group)
			}
			if group == "/" {
				break
			}
		}
	}
	return left, whose
}

// number reads a file of one; false: there is none, as in "max".
func number(file string) (mem.Bytes, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return mem.Bytes(n), err == nil
}

// reclaimable returns what a group uses of files that nobody needs at once.
func reclaimable(folder string) (n mem.Bytes) {
	stat, _ := os.ReadFile(path.Join(folder, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		var bytes int64
		if _, err := fmt.Sscanf(line, "inactive_file %d", &bytes); err == nil {
			n = mem.Bytes(bytes)
		}
	}
	return n
}
