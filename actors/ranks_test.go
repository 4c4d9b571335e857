package actors

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// job is as many ranks over one folder. Ranks of a kind are alike.
type job struct {
	t     *testing.T
	ranks int
	plans []*plan.Plan // by kind
	all   []*cache     // by rank
}

// newJob starts the ranks of a job.
func newJob(t *testing.T, dir string, ranks, kinds int) *job {
	j := &job{t: t, ranks: ranks}
	for kind := range kinds {
		p := somePlan(append(opens(), mem.Bytes(1+kind)*mem.MiB)...)
		p.Key = plan.KeyOf(opens())
		j.plans = append(j.plans, p)
	}
	for rank := range ranks {
		c := newCache(dir)
		c.program = uint32(rank % kinds) // told apart by their command lines
		j.all = append(j.all, c)
	}
	return j
}

// each has the ranks do something, many at once.
func (j *job) each(do func(c *cache, p *plan.Plan)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for {
				rank := int(next.Add(1)) - 1
				if rank >= j.ranks {
					return
				}
				do(j.all[rank], j.plans[rank%len(j.plans)])
			}
		})
	}
	group.Wait()
}

// leave has all ranks leave their plans.
func (j *job) leave() {
	j.each(func(c *cache, p *plan.Plan) {
		if _, err := c.store(p); err != nil {
			j.t.Error(err)
		}
	})
}

// open has all ranks look for what an earlier run has left, and returns how many found nothing. Of
// one in so many ranks the plan is spoilt or gone in the meantime, 0: of none.
func (j *job) open(broken int) (without int64) {
	var n atomic.Int64
	j.each(func(c *cache, own *plan.Plan) {
		o := &opening{cache: c, files: c.list(), sizes: opens()}
		f, chosen := o.choose()
		if chosen && broken > 0 && rand.IntN(broken) == 0 {
			if rand.IntN(2) == 0 {
				_ = os.Remove(f.path)
			} else {
				_ = os.WriteFile(f.path, []byte("half a pl"), 0o644)
			}
		}
		var p *plan.Plan
		if chosen {
			p, _ = c.load(f)
		}
		if p == nil {
			n.Add(1)
		} else if p.Run() != own.Run() && broken == 0 { // else that of one that began alike
			j.t.Error("a rank was given another's plan")
		}
	})
	return n.Load()
}

// asks is what all ranks together have asked the file system for.
func (j *job) asks() (folders, looks, reads, writes int64) {
	for _, c := range j.all {
		folders, looks = folders+c.asked.folders.Load(), looks+c.asked.looks.Load()
		reads, writes = reads+c.asked.reads.Load(), writes+c.asked.writes.Load()
	}
	return
}

// TestTenThousandRanks has the ranks of a job start over one folder and leave their plans there, by
// the code that real ranks run. What a rank asks the file system for does not grow with how many
// there are: the folder is read once at a start, and a file; where all are alike the first few
// write. What goes wrong for a rank costs it and its like a plan, until one of them has written it
// anew, and nobody else.
func TestTenThousandRanks(t *testing.T) {
	const kinds = 8
	for _, ranks := range []int{100, 1_000, 10_000} {
		dir := t.TempDir()
		first := newJob(t, dir, ranks, kinds)
		if n := first.open(0); n != int64(ranks) {
			t.Errorf("%d of %d ranks found nothing in an empty folder", n, ranks)
		}
		first.leave()
		folders, looks, reads, writes := first.asks()
		t.Logf("%d ranks, first start: folder read %d times, files looked at %d, read %d, written %d", ranks, folders, looks, reads, writes)
		// Those that are at it at once may all write.
		if writes > kinds*64 || folders > int64(ranks)+4*writes || looks > int64(ranks)+2*kinds*writes || reads != 0 {
			t.Errorf("%d ranks: the folder was read %d times, %d files were looked at, %d read, %d written", ranks, folders, looks, reads, writes)
		}
		second := newJob(t, dir, ranks, kinds)
		if n := second.open(0); n != 0 {
			t.Errorf("%d of %d ranks found nothing", n, ranks)
		}
		if folders, looks, reads, _ := second.asks(); folders != int64(ranks) || looks != 0 || reads != int64(ranks) {
			t.Errorf("%d ranks: the folder was read %d times, %d files were looked at, %d read", ranks, folders, looks, reads)
		}
		third := newJob(t, dir, ranks, kinds)
		third.open(100)
		third.leave()
		last := newJob(t, dir, ranks, kinds)
		if n := last.open(0); n != 0 {
			t.Errorf("%d of %d ranks found nothing after what was spoilt had been left anew", n, ranks)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != kinds || len(hidden) != 0 {
			t.Errorf("%d ranks leave %d files and %d hidden ones", ranks, len(left), len(hidden))
		}
	}
}

// TestRanksThatDiffer: each leaves a plan of its own, and a folder of thousands costs the next one
// no more than the reading of it, now and then a look at all.
func TestRanksThatDiffer(t *testing.T) {
	const ranks = 400
	j := newJob(t, t.TempDir(), ranks, ranks)
	j.leave()
	folders, looks, _, writes := j.asks()
	t.Logf("folder read %d times, files looked at %d, written %d", folders, looks, writes)
	if writes != ranks || looks > 300*ranks {
		t.Errorf("%d were written and %d looked at", writes, looks)
	}
	next := newJob(t, j.all[0].dir, ranks, ranks)
	if n := next.open(0); n != 0 {
		t.Errorf("%d ranks found nothing", n)
	}
}
