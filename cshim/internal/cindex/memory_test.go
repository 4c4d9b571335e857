package cindex_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"stalloc/cshim/internal/cquick"
	"stalloc/engine/index"
)

// TestNoMemory: where the host has none, an index says so, and is what it was. In a process of its
// own, which may have little more than it has.
func TestNoMemory(t *testing.T) {
	const child = "STALLOC_TEST_NO_MEMORY"
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestNoMemory$")
		c.Env = append(os.Environ(), child+"=1", "GOGC=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	x := cquick.New(0, 0).Index()
	x.Assign(1, 0, 0)
	x.Give(2, 8192, 1<<30)
	limit(t, 256<<20)
	at := index.Unit(8192)
	why := func() (why any) {
		defer func() { why = recover() }()
		for ; ; at += 2 { // a gap after each
			x.Put(index.Block{At: at, Size: 1, Arena: 2})
		}
	}()
	if text, _ := why.(string); !strings.Contains(text, "no memory") {
		t.Fatalf("stopped at %d: %v", at, why)
	}
	n := 0
	for range x.Blocks() {
		n++
	}
	blocks := int(at-8192) / 2
	if total := x.Total(); total.Blocks != blocks || n != blocks || n < 1<<16 {
		t.Fatalf("%d blocks were put, %d are there, counted %+v", blocks, n, total)
	}
	for a := index.Unit(8192); a < at; a += 2 {
		x.Drop(a)
	}
	if g := x.Fit(2, 1); g != (index.Gap{Lo: 8192, Hi: 1 << 30}) || x.Room(2).Free != g.Size() {
		t.Fatalf("all are gone, and free is %+v", g)
	}
}

// limit lets the process have so many bytes of addresses more.
func limit(t *testing.T, more uint64) {
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Fields(string(text))[0] {
		pages = 10*pages + uint64(c-'0')
	}
	most := pages*uint64(os.Getpagesize()) + more
	if err := syscall.Setrlimit(syscall.RLIMIT_AS,
		&syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
}
