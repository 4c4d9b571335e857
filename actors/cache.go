package actors

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// cache is the folder in which runs leave their plans for later ones. All reading
// and writing of files is here, and none of it on a thread that serves requests.
//
// A plan's file name says for which runs it is worth a look, so that none has to
// be opened for that:
//
//	first requests    program   steps
//	1c9a0f3e02b77c10-5be1a007-c04418f2.plan
//
// The first is the key of the first plan.KeyRequests requests on the first stream, the
// second of the program's command line, the last of what its steps ask for.
// Ranks of one job that do the same have the same file, and the first of them writes it; of
// several at once whoever renames last has. What is no plan is deleted: the next run writes a new one. What cannot be
// opened, or was written by another version, is somebody's plan all the same and stays.
//
// A plan decides where a program's tensors lie, so it is taken from nobody but the user
// and root: neither folder nor file may be another's, or open to others for writing.
type cache struct {
	dir     string
	program uint32
	began   time.Time // the run
	asked   asked
}

// asked is how often a cache has asked the file system for something.
type asked struct{ folders, looks, reads, writes atomic.Int64 }

// The folder is kept below cacheBytes by deleting what was used least recently. A
// temporary file that a crash has left is deleted after staleAfter.
const (
	cacheBytes = 256 * mem.MiB
	staleAfter = time.Hour
)

// cached is a file of a cache.
type cached struct {
	path         string
	key          uint64
	program, run uint32
	// As of when it was looked at.
	used time.Time
	size mem.Bytes
}

func newCache(dir string) *cache {
	return &cache{dir: dir, program: programKey(), began: time.Now()}
}

// programKey is a key of the command line: the same program run the same way.
func programKey() uint32 {
	h := fnv.New32a()
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		line = []byte(strings.Join(os.Args, "\x00"))
	}
	h.Write(line)
	return h.Sum32()
}

// fold shortens a key for a file name.
func fold(key uint64) uint32 { return uint32(key>>32) ^ uint32(key) }

func (c *cached) name() string { return fmt.Sprintf("%016x-%08x-%08x.plan", c.key, c.program, c.run) }

// list returns what the cache holds. A folder that does not exist holds nothing. It is read and
// none of its files looked at: there may be one for each of thousands of ranks, and as many read it.
func (c *cache) list() []cached {
	c.asked.folders.Add(1)
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil
	}
	var files []cached
	for _, e := range entries {
		f := cached{path: filepath.Join(c.dir, e.Name())}
		n, err := fmt.Sscanf(e.Name(), "%016x-%08x-%08x.plan", &f.key, &f.program, &f.run)
		if n == 3 && err == nil && e.Type().IsRegular() && f.name() == e.Name() {
			files = append(files, f)
		}
	}
	return files
}

// latest looks at files and returns those that are there, the last used first.
func (c *cache) latest(files []cached) []cached {
	c.asked.looks.Add(int64(len(files)))
	var found []cached
	for _, f := range files {
		if info, err := os.Stat(f.path); err == nil {
			f.used, f.size = info.ModTime(), mem.Bytes(info.Size())
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b cached) int { return b.used.Compare(a.used) })
	return found
}

// check reports why the folder's plans are not to be trusted. One that is not there yet
// is none that anybody else has made.
func (c *cache) check() error {
	info, err := os.Stat(c.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder: name another in STALLOC_CONF=cache:DIR", c.dir)
	}
	if err := ours(info); err != nil {
		return fmt.Errorf("%s %w, or name another folder in STALLOC_CONF=cache:DIR", c.dir, err)
	}
	return nil
}

// ours reports what is wrong with the owner or the mode of a file or folder.
func ours(info os.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to user %d, and plans are taken from this one (%d) and root alone: chown it", s.Uid, os.Geteuid())
	}
	if info.Mode()&0o022 != 0 {
		return fmt.Errorf("can be written by others than its owner (%v): chmod go-w it", info.Mode())
	}
	return nil
}

// load reads a plan.
func (c *cache) load(f cached) (*plan.Plan, error) {
	c.asked.reads.Add(1)
	p, err := plan.ReadFileIf(f.path, ours)
	if errors.Is(err, plan.ErrForeign) || errors.Is(err, plan.ErrCorrupt) {
		if left := os.Remove(f.path); left != nil {
			return nil, fmt.Errorf("%w; it cannot be deleted: %w", err, left)
		}
		return nil, fmt.Errorf("%w; it is deleted", err)
	}
	return p, err
}

// use marks a plan as used: it is the last to be evicted, and preferred by runs
// that could take several.
func (c *cache) use(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// store writes the plan of a run.
func (c *cache) store(p *plan.Plan) (path string, err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", err
	}
	if err := c.check(); err != nil {
		return "", err
	}
	f := cached{key: p.Key, program: c.program, run: fold(p.Run())}
	path = filepath.Join(c.dir, f.name())
	c.asked.looks.Add(1)
	info, err := os.Lstat(path)
	if err == nil && ours(info) == nil && info.ModTime().After(c.began) {
		return path, nil // another rank's
	}
	isNew := err != nil
	c.asked.writes.Add(1)
	if err := plan.WriteFile(path, p); err != nil {
		return "", err
	}
	if n := len(c.list()); isNew && rand.IntN(n/evictShare+1) == 0 {
		c.evict(path)
	}
	return path, nil
}

// evictShare: in a folder of n times as many files every n-th new one has all of them looked at.
const evictShare = 64

// evict deletes what was used least recently until the folder is small enough.
// The file named stays. Other ranks may be deleting the same files.
func (c *cache) evict(keep string) {
	left := cacheBytes
	for _, f := range c.latest(c.list()) {
		if left -= f.size; left < 0 && f.path != keep {
			_ = os.Remove(f.path)
		}
	}
	c.asked.folders.Add(1)
	stale, _ := filepath.Glob(filepath.Join(c.dir, ".*.plan.*"))
	for _, path := range stale {
		if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeType == 0 && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(path)
		}
	}
}
