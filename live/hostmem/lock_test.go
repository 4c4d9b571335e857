package hostmem

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestLock: a second one waits until the first ends, and not for ever.
func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock := lock(file, time.Hour)
	held := lock(file, time.Millisecond) // goes on without
	held()
	done := make(chan func())
	go func() { done <- lock(file, time.Hour) }()
	select {
	case <-done:
		t.Fatal("two have the lock at once")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	(<-done)()
	lock(filepath.Join(t.TempDir(), "no", "folder"), time.Hour)() // nothing to wait for
}

// TestTakenMemoryIsNoChilds: a fork would share pinned pages.
func TestTakenMemoryIsNoChilds(t *testing.T) {
	memory, err := Take(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = Give(memory) }()
	if err := Fill(memory); err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if flags := flagsAt(string(maps), memory); !strings.Contains(flags+" ", " dc ") {
		t.Errorf("the mapping has flags %q, without dc (do not copy on fork)", flags)
	}
}

// flagsAt returns the flags of the mapping that begins with memory.
func flagsAt(smaps string, memory []byte) string {
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	inside := false
	for line := range strings.Lines(smaps) {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= start && start < hi
		} else if flags, is := strings.CutPrefix(line, "VmFlags:"); is && inside {
			return strings.TrimSpace(flags)
		}
	}
	return ""
}
