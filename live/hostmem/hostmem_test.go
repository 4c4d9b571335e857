package hostmem

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// root makes a folder with files, as a host would have them.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		file := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

const meminfo = "MemTotal:       1000 kB\nMemFree:        1 kB\nMemAvailable:   800 kB\n"

func TestLeft(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		left  mem.Bytes
		whose string
	}{
		"nothing is known": {nil, math.MaxInt64, ""},
		"the host alone": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "0::/\n"}, 800 * mem.KiB, "the host"},
		"a group without a limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job\n",
			"sys/fs/cgroup/job/memory.max": "max\n", "sys/fs/cgroup/job/memory.current": "4096\n",
		}, 800 * mem.KiB, "the host"},
		"a group": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/jobs/one\n",
			"sys/fs/cgroup/jobs/one/memory.max":     "409600\n",
			"sys/fs/cgroup/jobs/one/memory.current": "204800\n",
			"sys/fs/cgroup/jobs/one/memory.stat":    "anon 100\ninactive_file 4096\n",
		}, 204800 + 4096, "the control group /jobs/one"},
		"a group above": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/jobs/one\n",
			"sys/fs/cgroup/jobs/one/memory.max":     "max\n",
			"sys/fs/cgroup/jobs/one/memory.current": "100\n",
			"sys/fs/cgroup/jobs/memory.max":         "8192\n",
			"sys/fs/cgroup/jobs/memory.current":     "9000\n",
		}, 0, "the control group /jobs"},
		"in a container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/on/the/host\n",
			"sys/fs/cgroup/memory.max": "8192\n", "sys/fs/cgroup/memory.current": "4096\n",
		}, 4096, "the control group /"},
		"the first version": {map[string]string{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/job\n0::/none\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8192\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1\n",
		}, 8191, "the control group /job"},
	} {
		top := root(t, c.files)
		if left, whose := leftIn(top, math.MaxInt64); left != c.left || whose != c.whose {
			t.Errorf("%s: %v of %q, want %v of %q", name, left, whose, c.left, c.whose)
		}
		if c.left == math.MaxInt64 {
			continue
		}
		part, err := room(top, c.left+1)
		if part > c.left-c.left/10 || !errors.Is(err, ErrFull) {
			t.Errorf("%s: %v of %v may stay taken, %v", name, part, c.left, err)
		}
		if same, err := room(top, part); same != part || err != nil {
			t.Errorf("%s: %v of %v may stay taken, %v", name, same, part, err)
		}
		err = check(top, c.left+1)
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), c.whose) ||
			check(top, c.left) != nil {
			t.Errorf("%s: one byte too many: %v; all that is left: %v", name, err,
				check(top, c.left))
		}
	}
}

// TestAmple: half of all is free, of the host and of each group.
func TestAmple(t *testing.T) {
	group := func(used string) map[string]string {
		return map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job\n",
			"sys/fs/cgroup/job/memory.max": "8192\n", "sys/fs/cgroup/job/memory.current": used}
	}
	for name, c := range map[string]struct {
		files map[string]string
		ample bool
	}{
		"nothing is known": {nil, true},
		"most of it":       {group("4095\n"), true},
		"half is used":     {group("4096\n"), false},
		"of the host": {map[string]string{"proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 499 kB\n"},
			false},
	} {
		if got := ample(root(t, c.files)); got != c.ample {
			t.Errorf("%s: ample is %v", name, got)
		}
	}
}

// TestRoom: a tenth of all stays free, not of what is left.
func TestRoom(t *testing.T) {
	top := root(t, map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n"})
	if n, err := room(top, mem.MiB); n != 700*mem.KiB ||
		!strings.Contains(err.Error(), "1.00 MiB are needed, and the host can spare 700.00 KiB") {
		t.Errorf("%v, %v", n, err)
	}
}

func TestTake(t *testing.T) {
	memory, err := Take(mem.MiB)
	if err != nil || len(memory) != 1<<20 {
		t.Fatalf("%d bytes, %v", len(memory), err)
	}
	if err := Fill(memory); err != nil {
		t.Error(err)
	}
	memory[len(memory)-1] = 1
	if err := Give(memory); err != nil {
		t.Error(err)
	}
	if _, err := Take(1 << 60); !errors.Is(err, ErrFull) {
		t.Errorf("an exabyte: %v", err)
	}
	if err := Check(1 << 60); !errors.Is(err, ErrFull) {
		t.Errorf("this host has an exabyte: %v", err)
	}
}
