package page_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stalloc/live/page"
	"stalloc/live/page/pagetest"
)

// TestLayout: both sides agree where everything lies, and which counters there are.
func TestLayout(t *testing.T) {
	program, err := pagetest.Program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "layout").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("page %d header %d device %d sample %d counters %d\n",
		page.HeaderSize+16*page.DeviceSize, page.HeaderSize, page.DeviceSize, page.SampleSize,
		len(pagetest.Names()))
	for i, name := range pagetest.Names() {
		want += fmt.Sprintf("%s %d\n", name, i)
	}
	if string(out) != want {
		t.Errorf("C says\n%sand Go\n%s", out, want)
	}
}

// TestRead: what a process tells, at once and later, is read from its page, until it ends.
func TestRead(t *testing.T) {
	w := pagetest.Start(t, "RANK=3")
	if w.First != "due 1 then 0" {
		t.Errorf("%q", w.First)
	}
	p, err := page.Of(page.Folder, w.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Devices) != 2 || p.Devices[0].Ordinal != 0 || p.Devices[1].Ordinal != 3 ||
		p.Rank() != "3" || !strings.HasSuffix(p.Command(), "writer serve") {
		t.Fatalf("%+v, rank %q, %q", p, p.Rank(), p.Command())
	}
	now := p.Devices[0].Now
	if want := (page.Stats{Requests: 100, Hits: 75, Steps: 3, Allocated: 4096,
		PeakAllocated: 1 << 20, Reserved: 2 << 20, PeakReserved: 2 << 20,
		Fallback: 7}); now.Stats != want {
		t.Errorf("%+v, want %+v", now.Stats, want)
	}
	if age := time.Since(now.At); age < 0 || age > time.Hour || !p.Devices[0].Before.At.IsZero() {
		t.Errorf("told %v ago, and before that at %v", age, p.Devices[0].Before.At)
	}
	if p.Devices[1].Now.Requests != 1000 {
		t.Errorf("device 3: %+v", p.Devices[1])
	}
	w.Do(t, "again")
	if p, err = page.Of(page.Folder, w.Process.Pid); err != nil {
		t.Fatal(err)
	}
	d := p.Devices[0]
	r := page.Between(d.Before, d.Now)
	if r.Steps != 1 || r.Requests != 60 || r.HitShare != 0.5 || r.Step != r.Elapsed ||
		r.Driver <= 0 {
		t.Errorf("rates %+v", r)
	}
	w.In.Close()
	if err := w.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.Path); !os.IsNotExist(err) {
		t.Errorf("the page stays behind: %v", err)
	}
}

// TestFork: a forked child writes nothing, and takes nothing away at its end.
func TestFork(t *testing.T) {
	w := pagetest.Start(t)
	w.Do(t, "fork")
	p, err := page.Of(page.Folder, w.Process.Pid)
	if err != nil || p.Devices[0].Now.Requests != 100 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestKilled: what a process that was killed leaves behind is taken away.
func TestKilled(t *testing.T) {
	w := pagetest.Start(t)
	p, err := page.Of(page.Folder, w.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	w.Process.Kill()
	w.Wait()
	if _, err := page.Of(page.Folder, w.Process.Pid); err == nil || !strings.Contains(err.Error(),
		"has no page") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(p.Path); !os.IsNotExist(err) {
		t.Errorf("the page stays behind: %v", err)
	}
}

// TestZombie: a process that has ended is no process, before its parent has asked for it, too.
func TestZombie(t *testing.T) {
	w := pagetest.Start(t)
	path := mustPath(t, w.Process.Pid)
	w.Process.Kill()
	stat := fmt.Sprintf("/proc/%d/stat", w.Process.Pid)
	for text := ""; !strings.Contains(text, ") Z "); { // it is killed soon
		read, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		text = string(read)
	}
	if _, err := page.Of(page.Folder, w.Process.Pid); err == nil {
		t.Error("it has a page")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the page stays behind: %v", err)
	}
}

// TestCapacity: devices are those that the process was started with, by nvidia-smi's word.
func TestCapacity(t *testing.T) {
	folder := t.TempDir()
	script := "#!/bin/sh\necho '0, GPU-aaaa-1, 81559'\necho '1, GPU-bbbb-2, 40960'\necho '2, GPU-cccc-3, [N/A]'\n"
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	gpus := page.GPUs()
	if len(gpus) != 2 || gpus[1] != (page.GPU{Index: "1", UUID: "GPU-bbbb-2",
		Capacity: 40960 << 20}) {
		t.Fatalf("%+v", gpus)
	}
	for _, c := range []struct {
		env     string
		ordinal int
		want    uint64
	}{
		{"CUDA_VISIBLE_DEVICES=GPU-bbbb,0", 0, 40960 << 20}, {"CUDA_VISIBLE_DEVICES=GPU-bbbb,0", 1,
			0}, {"CUDA_DEVICE_ORDER=PCI_BUS_ID", 1, 40960 << 20},
		{"CUDA_VISIBLE_DEVICES=0", 3, 0}, {"CUDA_DEVICE_ORDER=", 0,
			0}, {"CUDA_DEVICE_ORDER=PCI_BUS_ID", 7, 0},
	} {
		p := page.Process{PID: pagetest.Start(t, c.env).Process.Pid}
		if got := p.Capacity(gpus, c.ordinal); got != c.want {
			t.Errorf("%s, device %d: %d, want %d", c.env, c.ordinal, got, c.want)
		}
		if got := p.Capacity(gpus[:1], 0); c.env == "CUDA_DEVICE_ORDER=" && got != 81559<<20 {
			t.Errorf("alone: %d", got)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if gpus := page.GPUs(); gpus != nil {
		t.Errorf("%+v without nvidia-smi", gpus)
	}
}

// TestOff: STALLOC_CONF=page:off.
func TestOff(t *testing.T) {
	w := pagetest.Start(t, "PAGE=off")
	if w.First != "due 0 then 0" {
		t.Errorf("%q", w.First)
	}
	if _, err := page.Of(page.Folder, w.Process.Pid); err == nil {
		t.Error("there is a page")
	}
}

// TestStress: four threads write one device, and a reader never sees half of two writes.
func TestStress(t *testing.T) {
	w := pagetest.Start(t)
	path := mustPath(t, w.Process.Pid)
	fmt.Fprintln(w.In, "stress")
	for range 2000 {
		p, err := page.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.Devices {
			if s := d.Now.Stats; d.Ordinal == 3 && s.Requests != 1000 &&
				(s.Requests != s.Fallback || s.Requests != s.Steps) {
				t.Fatalf("half of two writes: %+v", s)
			}
		}
	}
	w.Do(t, "enough")
}

func mustPath(t *testing.T, pid int) string {
	t.Helper()
	p, err := page.Of(page.Folder, pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.Path
}

// TestGarbage: what is no page is none, however it begins.
func TestGarbage(t *testing.T) {
	header := func(version, devices, counters uint32) []byte {
		b := make([]byte, page.HeaderSize)
		copy(b, "stalloc\x00")
		binary.NativeEndian.PutUint32(b[8:], version)
		binary.NativeEndian.PutUint32(b[32:], devices)
		binary.NativeEndian.PutUint32(b[36:], counters)
		return b
	}
	folder := t.TempDir()
	for i, text := range [][]byte{nil, []byte("hello"), header(2, 0, 0),
		header(page.Version, 1, 27), header(page.Version, 1<<31, 27), header(page.Version, 0,
			1<<31)} {
		path := filepath.Join(folder, fmt.Sprintf("stalloc-%d-1", i))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := page.Read(path); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	if list, err := page.List(folder); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	written := append(header(page.Version, 1, 27), make([]byte, page.DeviceSize)...)
	// its writer was ended while it wrote
	binary.NativeEndian.PutUint64(written[page.HeaderSize:], 7)
	path := filepath.Join(folder, "stalloc-9-1")
	if err := os.WriteFile(path, written, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := page.Read(path); err != nil || len(p.Devices) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestFile: a page in a folder where any user may write is a file, and that of the process's user
// alone. Nothing else is waited for, followed or believed.
func TestFile(t *testing.T) {
	w := pagetest.Start(t)
	own := mustPath(t, w.Process.Pid)
	text, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	for _, err := range []error{
		// says what another one says
		os.WriteFile(in(fmt.Sprintf("stalloc-%d-0", w.Process.Pid)), text, 0o600),
		// could be of /dev/zero
		os.Symlink(own, in(filepath.Base(own))),
		os.Symlink("stalloc-9-9", in("stalloc-9-9")),
		os.Mkdir(in("stalloc-8-8"), 0o700),
		syscall.Mkfifo(in("stalloc-1-1"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan string)
	go func() {
		list, _ := page.List(folder)
		_, err := page.Read(in("stalloc-1-1"))
		done <- fmt.Sprint(list, err != nil)
	}()
	select {
	case got := <-done:
		if got != "[] true" {
			t.Error(got)
		}
	case <-time.After(time.Minute):
		t.Fatal("a FIFO is waited for")
	}
}

// TestOwner: a page of another user's says nothing of a process, whatever it says.
func TestOwner(t *testing.T) {
	w := pagetest.Start(t)
	own := mustPath(t, w.Process.Pid)
	text, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, filepath.Base(own))
	pid := w.Process.Pid
	if os.Geteuid() != 0 { // another user's process, and a page of this one's
		stat, err := os.ReadFile("/proc/1/stat")
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		start, err2 := strconv.ParseUint(fields[19], 10, 64)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		pid, path = 1, filepath.Join(folder, fmt.Sprintf("stalloc-1-%d", start))
		binary.NativeEndian.PutUint32(text[12:], 1)
		binary.NativeEndian.PutUint64(text[16:], start)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if _, err := page.Of(folder, pid); err != nil {
			t.Errorf("root's page is not believed: %v", err)
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := page.Of(folder, pid); err == nil {
		t.Errorf("another user's page is believed: %+v", p)
	}
}

// TestHarmed: a process goes on, whatever is done to its page, and writes to no other file.
func TestHarmed(t *testing.T) {
	w := pagetest.Start(t)
	path := mustPath(t, w.Process.Pid)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "again")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "again")
	if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "again")
	if text, err := os.ReadFile(path); string(text) != "somebody's" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestText: what a process is called and says of its rank is text, for terminals and Prometheus.
func TestText(t *testing.T) {
	w := pagetest.Start(t, "RANK=\xff\x1b[2J3")
	p, err := page.Of(page.Folder, w.Process.Pid)
	if err != nil || p.Rank() != "??[2J3" {
		t.Errorf("rank %q, %v", p.Rank(), err)
	}
}

// TestOwn: a process without a page has none.
func TestOwn(t *testing.T) {
	if own := page.Own(); len(own) != 0 {
		t.Errorf("%+v", own)
	}
}
