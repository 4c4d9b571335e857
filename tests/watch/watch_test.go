// Package watch measures what it costs a process to be watched: `stalloc top` and the
// Prometheus endpoint read its page as this does.
package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"stalloc/live/page"
	"stalloc/live/page/pagetest"
	"stalloc/tests/fakecuda/fake"
)

// pairs is a process that allocates and frees when told.
type pairs struct {
	*pagetest.Child
	hits float64 // share of the last round
}

func start(t testing.TB) *pairs {
	t.Helper()
	folder := t.TempDir()
	driver, err := fake.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	lib, err := fake.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "pairs")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
		"-I../../cshim", "-o", program,
		"testdata/pairs.c", "-L"+lib, "-lstalloc", "-Wl,-rpath,"+lib).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "STALLOC_CONF=log:error,driver:"+driver)
	return &pairs{Child: pagetest.Run(t, cmd)}
}

// round returns the nanoseconds of a pair.
func (p *pairs) round(t testing.TB) (ns float64) {
	t.Helper()
	said := p.Do(t, "go")
	if _, err := fmt.Sscan(said, &ns, &p.hits); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	return ns
}

// reader looks at the page over and over while it is on.
type reader struct {
	on, reads atomic.Int64
	quit      chan struct{}
}

func (r *reader) run(pid int, pause time.Duration) {
	for {
		select {
		case <-r.quit:
			return
		case <-time.After(pause):
		}
		if r.on.Load() == 0 {
			continue
		}
		if p, err := page.Of(page.Folder, pid); err == nil && len(p.Devices) == 1 &&
			p.Devices[0].Now.Requests > 0 {
			r.reads.Add(1)
		}
	}
}

// BenchmarkWatched compares a pair of a process that nobody looks at with one of the same
// process while somebody does: ten times as often as `stalloc top` may, and without a pause.
// Rounds take turns, so that what else the machine does meets both.
func BenchmarkWatched(b *testing.B) {
	for _, how := range []struct {
		name  string
		pause time.Duration
	}{{"every-10ms", 10 * time.Millisecond}, {"without-pause", 0}} {
		b.Run(how.name, func(b *testing.B) {
			p := start(b)
			p.round(b)
			r := &reader{quit: make(chan struct{})}
			defer close(r.quit)
			go r.run(p.Process.Pid, how.pause)
			var alone, watched, ratios []float64
			for b.Loop() {
				r.on.Store(0)
				without := p.round(b)
				r.on.Store(1)
				with := p.round(b)
				alone, watched, ratios = append(alone, without), append(watched,
					with), append(ratios, with/without)
			}
			if r.reads.Load() == 0 {
				b.Fatal("the page was never read")
			}
			slices.Sort(alone)
			slices.Sort(watched)
			slices.Sort(ratios)
			n := len(alone) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(alone[n], "ns/pair-alone")
			b.ReportMetric(watched[n], "ns/pair-watched")
			b.ReportMetric(ratios[n], "ratio")
			b.ReportMetric(100*p.hits, "%hits")
			b.ReportMetric(float64(r.reads.Load()), "reads")
		})
	}
}

// TestWatched: a process is read while it allocates.
func TestWatched(t *testing.T) {
	p := start(t)
	p.round(t)
	read, err := page.Of(page.Folder, p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if now := read.Devices[0].Now; now.Requests == 0 || now.Steps == 0 {
		t.Errorf("%+v", now)
	}
}
