package page

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var writerPath string

// TestMain builds the program whose page is read: cshim/page.c itself.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "page")
	if err != nil {
		panic(err)
	}
	writerPath = filepath.Join(folder, "writer")
	var fields strings.Builder
	for _, name := range names() {
		fmt.Fprintf(&fields, "FIELD(%s);\n", name)
	}
	if err := os.WriteFile(filepath.Join(folder, "fields.h"), []byte(fields.String()), 0o600); err != nil {
		panic(err)
	}
	args := []string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I" + folder, "-o", writerPath}
	if out, err := exec.Command("gcc", append(args, "testdata/writer.c", "../../cshim/page.c")...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("gcc: %v\n%s", err, out))
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// names are those of the counters, as C has them.
func names() []string {
	var names []string
	of := reflect.TypeFor[Stats]()
	for i := range of.NumField() {
		names = append(names, of.Field(i).Tag.Get("json"))
	}
	return names
}

// TestLayout: both sides agree where everything lies, and which counters there are.
func TestLayout(t *testing.T) {
	out, err := exec.Command(writerPath, "layout").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("page %d header %d device %d sample %d counters %d\n", headerSize+16*deviceSize, headerSize, deviceSize, sampleSize, len(names()))
	for i, name := range names() {
		want += fmt.Sprintf("%s %d\n", name, i)
	}
	if string(out) != want {
		t.Errorf("C says\n%sand Go\n%s", out, want)
	}
}

type writer struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, env ...string) *writer {
	t.Helper()
	w := &writer{Cmd: exec.Command(writerPath, "serve")}
	w.Env = append(os.Environ(), env...)
	w.Stderr = os.Stderr
	var err error
	if w.in, err = w.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Process.Kill(); w.Wait() })
	want := "due 1 then 0"
	if slices.Contains(env, "PAGE=off") {
		want = "due 0 then 0"
	}
	if got := w.line(t); got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	return w
}

func (w *writer) line(t *testing.T) string {
	t.Helper()
	if !w.out.Scan() {
		t.Fatalf("the writer has ended: %v", w.out.Err())
	}
	return w.out.Text()
}

func (w *writer) do(t *testing.T, what string) {
	t.Helper()
	fmt.Fprintln(w.in, what)
	w.line(t)
}

// TestRead: what a process tells, at once and later, is read from its page, until it ends.
func TestRead(t *testing.T) {
	w := start(t, "RANK=3")
	p, err := Of(Folder, w.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Devices) != 2 || p.Devices[0].Ordinal != 0 || p.Devices[1].Ordinal != 3 || p.Rank() != "3" || !strings.HasSuffix(p.Command(), "writer serve") {
		t.Fatalf("%+v, rank %q, %q", p, p.Rank(), p.Command())
	}
	now := p.Devices[0].Now
	if want := (Stats{Requests: 100, Hits: 75, Steps: 3, Allocated: 4096, Reserved: 2 << 20, Fallback: 7}); now.Stats != want {
		t.Errorf("%+v, want %+v", now.Stats, want)
	}
	if age := time.Since(now.At); age < 0 || age > time.Hour || !p.Devices[0].Before.At.IsZero() {
		t.Errorf("told %v ago, and before that at %v", age, p.Devices[0].Before.At)
	}
	if p.Devices[1].Now.Requests != 1000 {
		t.Errorf("device 3: %+v", p.Devices[1])
	}
	w.do(t, "again")
	if p, err = Of(Folder, w.Process.Pid); err != nil {
		t.Fatal(err)
	}
	d := p.Devices[0]
	r := Between(d.Before, d.Now)
	if r.Steps != 1 || r.Requests != 60 || r.HitShare != 0.5 || r.Step != r.Elapsed || r.Driver <= 0 {
		t.Errorf("rates %+v", r)
	}
	w.in.Close()
	if err := w.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.Path); !os.IsNotExist(err) {
		t.Errorf("the page stays behind: %v", err)
	}
}

// TestFork: a forked child writes nothing, and takes nothing away at its end.
func TestFork(t *testing.T) {
	w := start(t)
	w.do(t, "fork")
	p, err := Of(Folder, w.Process.Pid)
	if err != nil || p.Devices[0].Now.Requests != 100 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestKilled: what a process that was killed leaves behind is taken away.
func TestKilled(t *testing.T) {
	w := start(t)
	p, err := Of(Folder, w.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	w.Process.Kill()
	w.Wait()
	if _, err := Of(Folder, w.Process.Pid); err == nil || !strings.Contains(err.Error(), "has no page") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(p.Path); !os.IsNotExist(err) {
		t.Errorf("the page stays behind: %v", err)
	}
}

// TestOff: STALLOC_CONF=page:off.
func TestOff(t *testing.T) {
	w := start(t, "PAGE=off")
	if _, err := Of(Folder, w.Process.Pid); err == nil {
		t.Error("there is a page")
	}
}

// TestStorm: four threads write one device, and a reader never sees half of two writes.
func TestStorm(t *testing.T) {
	w := start(t)
	path := mustPath(t, w.Process.Pid)
	fmt.Fprintln(w.in, "storm")
	done := make(chan string)
	go func() { w.out.Scan(); done <- w.out.Text() }()
	for reads := 0; ; reads++ {
		p, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.Devices {
			if s := d.Now.Stats; d.Ordinal == 3 && s.Requests != 1000 && (s.Requests != s.Fallback || s.Requests != s.Steps) {
				t.Fatalf("half of two writes: %+v", s)
			}
		}
		select {
		case <-done:
			if reads == 0 {
				t.Fatal("nothing was read meanwhile")
			}
			return
		default:
		}
	}
}

func mustPath(t *testing.T, pid int) string {
	t.Helper()
	p, err := Of(Folder, pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.Path
}

// TestGarbage: what is no page is none, however it begins.
func TestGarbage(t *testing.T) {
	header := func(version, devices, counters uint32) []byte {
		b := make([]byte, headerSize)
		copy(b, "stalloc\x00")
		binary.NativeEndian.PutUint32(b[8:], version)
		binary.NativeEndian.PutUint32(b[32:], devices)
		binary.NativeEndian.PutUint32(b[36:], counters)
		return b
	}
	folder := t.TempDir()
	for i, text := range [][]byte{nil, []byte("hello"), header(2, 0, 0), header(version, 1, 27), header(version, 1<<31, 27), header(version, 0, 1<<31)} {
		path := filepath.Join(folder, fmt.Sprintf("stalloc-%d-1", i))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := Read(path); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	if list, err := List(folder); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	written := append(header(version, 1, 27), make([]byte, deviceSize)...)
	binary.NativeEndian.PutUint64(written[headerSize:], 7) // its writer was ended while it wrote
	path := filepath.Join(folder, "stalloc-9-1")
	if err := os.WriteFile(path, written, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Read(path); err != nil || len(p.Devices) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}
