package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// somePlan is a plan of a run whose blocks lie one after the other.
func somePlan(sizes ...mem.Bytes) *plan.Plan {
	x := plan.Step{Small: true}
	for i, size := range sizes {
		x.Requests = append(x.Requests, plan.Request{Size: size, From: mem.Tick(i), Free: plan.Never, Done: plan.Never})
	}
	return &plan.Plan{Steps: []plan.Step{x.Placed()}, Key: plan.KeyOf(sizes)}
}

func TestCacheKeepsPlans(t *testing.T) {
	c := newCache(filepath.Join(t.TempDir(), "not", "yet", "there"))
	if files := c.list(); len(files) != 0 {
		t.Fatalf("a folder that is not there holds %v", files)
	}
	sizes := []mem.Bytes{512, 1024, 2048, 4096, 8192}
	path, err := c.store(somePlan(sizes...))
	if err != nil {
		t.Fatal(err)
	}
	files := c.list()
	if len(files) != 1 || files[0].path != path || files[0].program != c.program || files[0].key != plan.KeyOf(sizes) {
		t.Fatalf("the cache holds %+v", files)
	}
	if p, err := c.load(files[0]); err != nil || p.Requests() != len(sizes) {
		t.Errorf("the plan read back: %v, %v", p, err)
	}
}

func TestCacheDeletesWhatCannotBeRead(t *testing.T) {
	c := newCache(t.TempDir())
	sizes := []mem.Bytes{512}
	path, err := c.store(somePlan(sizes...))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("nothing of use"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.load(c.list()[0]); err == nil {
		t.Fatal("a broken file was read")
	}
	if files := c.list(); len(files) != 0 {
		t.Fatalf("the broken file is still there: %v", files)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(t.TempDir())
	sizes := []mem.Bytes{512}
	const each, many = 30 * mem.MiB, 12
	old := time.Now().Add(-24 * time.Hour)
	for i := range many {
		f := cached{run: uint32(i)}
		path := filepath.Join(c.dir, f.name())
		used := old.Add(time.Duration(i) * time.Minute)
		err := os.WriteFile(path, nil, 0o644)
		if err == nil {
			err = os.Truncate(path, int64(each))
		}
		if err == nil {
			err = os.Chtimes(path, used, used)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"notes.txt", ".00000000.plan.123", "00000000.plan"} {
		path := filepath.Join(c.dir, other)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.store(somePlan(sizes...)); err != nil {
		t.Fatal(err)
	}
	files := c.latest(c.list())
	if want := int(cacheBytes/each) + 1; len(files) != want {
		t.Fatalf("%d files are left, expected %d", len(files), want)
	}
	if files[0].key != plan.KeyOf(sizes) || files[1].run != many-1 {
		t.Errorf("those used last are runs %d and %d", files[0].run, files[1].run)
	}
	for name, stays := range map[string]bool{"notes.txt": true, "00000000.plan": true, ".00000000.plan.123": false} {
		if _, err := os.Stat(filepath.Join(c.dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRanksShareTheCache: many ranks write, and others read and evict, at once.
func TestRanksShareTheCache(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for rank := range 8 {
		group.Go(func() {
			c := newCache(dir)
			for i := range 10 {
				sizes := []mem.Bytes{mem.Bytes(1+rank%2) * 512, mem.Bytes(1+i) * 1024}
				if _, err := c.store(somePlan(sizes...)); err != nil {
					t.Error(err)
				}
				for _, f := range c.list() {
					if _, err := c.load(f); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 20 {
		t.Errorf("%d files, expected 10 of each kind: %v", len(entries), err)
	}
	for _, e := range entries {
		var f cached
		if n, _ := fmt.Sscanf(e.Name(), "%016x-", &f.key); n != 1 {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// begun is a run over a cache, as far as the plan that stored has put there names it.
func begun(t *testing.T, c *cache) *kit {
	t.Helper()
	k := newKit(t, Options{Cache: c.dir})
	for _, size := range opens() {
		k.malloc(size)
	}
	return k
}

// opens are as many requests as tell a run.
func opens() (sizes []mem.Bytes) {
	for i := range plan.KeyRequests {
		sizes = append(sizes, mem.Bytes(1+i)*512)
	}
	return sizes
}

// stored is a cache that holds one plan.
func stored(t *testing.T) (c *cache, path string) {
	t.Helper()
	c = newCache(t.TempDir())
	sizes := opens()
	path, err := c.store(somePlan(sizes...))
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

// TestCacheKeepsWhatItCannotRead: a plan that cannot be opened now, or that another
// version wrote, is still one.
func TestCacheKeepsWhatItCannotRead(t *testing.T) {
	c, path := stored(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(good)
	other[len("STALLOCP")]++
	for what, spoil := range map[string]func() error{
		"of another version": func() error { return os.WriteFile(path, other, 0o644) },
		// Nobody can read it, root included: a loop of links.
		"unreadable": func() error { return errors.Join(os.Remove(path), os.Symlink(path, path)) },
	} {
		f := c.list()[0]
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.load(f); err == nil {
			t.Errorf("a plan that is %s was read", what)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("a plan that is %s was deleted: %v", what, err)
		}
		if err := errors.Join(os.Remove(path), os.WriteFile(path, good, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCacheTrustsItsUserAlone: what others could have written is not read, and nothing is
// put beside it.
func TestCacheTrustsItsUserAlone(t *testing.T) {
	c, path := stored(t)
	for _, target := range []string{path, c.dir} {
		info, err := os.Stat(target)
		if err != nil {
			t.Fatal(err)
		}
		for _, bits := range []os.FileMode{0o020, 0o002} {
			if err := os.Chmod(target, info.Mode()|bits); err != nil {
				t.Fatal(err)
			}
			if k := begun(t, c); k.Plan() != nil {
				t.Errorf("mode %v of %s: the plan is used", info.Mode()|bits, target)
			}
			if target == c.dir {
				if path, err := c.store(somePlan(512)); err == nil {
					t.Errorf("mode %v of %s: %s was stored", info.Mode()|bits, target, path)
				}
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the plan was deleted: %v", err)
			}
		}
		if err := os.Chmod(target, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // only root can make somebody else its owner
		for _, target := range []string{path, c.dir} {
			if err := os.Chown(target, 4242, -1); err != nil {
				t.Fatal(err)
			}
			if k := begun(t, c); k.Plan() != nil {
				t.Errorf("the plan is used though %s is another's", target)
			}
			if err := os.Chown(target, 0, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if k := begun(t, c); k.Plan() == nil {
		t.Error("the plan is not used though it and its folder are the user's")
	}
}

// TestCacheOfOddFiles: pipes hold nothing up, and no file is larger than memory.
func TestCacheOfOddFiles(t *testing.T) {
	c, path := stored(t)
	f := c.list()[0]
	if err := os.Truncate(path, 40<<30); err != nil {
		t.Fatal(err)
	}
	good := c.list()[0]
	if _, err := c.load(good); !errors.Is(err, plan.ErrCorrupt) {
		t.Errorf("a file of 40 GiB: %v", err)
	}
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if files := c.list(); len(files) != 0 {
		t.Errorf("a pipe is listed: %v", files)
	}
	if _, err := c.load(f); err == nil {
		t.Error("a pipe was read")
	}
	k := newKit(t, Options{Cache: path})
	k.play(512, 1024)
}
