package onerange

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// cost of the ops, µs, for a handle of n bytes
func lin(n mem.Bytes, v [5]float64) float64 {
	sizes := [5]mem.Bytes{2 << 20, 20 << 20, 64 << 20, 512 << 20, 4 << 30}
	if n <= sizes[0] {
		return v[0]
	}
	i := 1
	for i < 4 && n > sizes[i] {
		i++
	}
	return v[i-1] + (v[i]-v[i-1])*float64(n-sizes[i-1])/float64(sizes[i]-sizes[i-1])
}

type sim struct {
	e          *Engine
	time       float64
	sizes      map[engine.Index]mem.Bytes
	held, peak mem.Bytes
	at         map[int64]mem.Addr
	fence      map[int64][]uint64
	maps       int
	mapsz      map[mem.Addr]mem.Bytes
}

func (s *sim) run(ev engine.Event) engine.Op {
	for {
		out := s.e.Step(ev, nil)
		if len(out) == 0 {
			return engine.Op{}
		}
		for _, op := range out {
			switch op.Kind {
			case engine.OpCreate:
				s.time += lin(op.Size, [5]float64{9.3, 9.3, 9.4, 18, 74})
				s.sizes[op.Handle] = op.Size
				s.held += op.Size
				s.peak = max(s.peak, s.held)
			case engine.OpMap:
				s.time += lin(op.Size, [5]float64{.8, .8, .8, 1.1, 3.7}) + 3.4 + lin(op.Size, [5]float64{23.6, 23.1, 23.3, 46, 189})
				s.mapsz[op.Addr] = op.Size
				s.maps++
			case engine.OpUnmap:
				for a := op.Addr; a < op.Addr+mem.Addr(op.Size); {
					n := s.mapsz[a]
					if n == 0 {
						panic("unmap of nothing")
					}
					delete(s.mapsz, a)
					s.time += lin(n, [5]float64{16.5, 16.4, 16.4, 24, 67})
					a += mem.Addr(n)
				}
			case engine.OpRelease:
				s.time += lin(s.sizes[op.Handle], [5]float64{11, 21, 30, 163, 1416})
				s.held -= s.sizes[op.Handle]
			case engine.OpRecord:
				s.time += .28 + .19
			}
		}
		last := out[len(out)-1]
		if last.Kind == engine.OpResume {
			ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
			continue
		}
		if len(out) > 0 && out[0].Kind == engine.OpRecord {
			// own-stream fences pass at once; others when the trace says
			for _, op := range out {
				if op.Addr != 0 {
					s.run(engine.Event{Kind: engine.EvFence, Fence: op.Fence})
				}
			}
			return out[0]
		}
		return last
	}
}

func TestReplay(t *testing.T) {
	files, _ := filepath.Glob("../../tests/traces/*.csv.gz")
	if d := os.Getenv("TRACES"); d != "" {
		files, _ = filepath.Glob(d)
	}
	var sumW, sumD float64
	n := 0
	for _, f := range files {
		tr, err := trace.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		envCfg(&cfg)
		s := &sim{e: New(cfg), sizes: map[engine.Index]mem.Bytes{}, at: map[int64]mem.Addr{}, fence: map[int64][]uint64{}, mapsz: map[mem.Addr]mem.Bytes{}}
		type step struct {
			driver float64
			took   int64
			peak   mem.Bytes
			st     uint64
			held   mem.Bytes
		}
		var steps []step
		var seen []obs
		var wishes []wished
		var tick, matched, hits, total int
		noPlan := os.Getenv("NOPLAN")
		index := map[int64]int{}
		var load, peak, stepPeak mem.Bytes
		var now, begin int64
		var d0 float64
		var st0 uint64
		live := map[int64]mem.Bytes{}
		fences := map[int64]engine.Op{}
		for i := range tr.Events {
			e := &tr.Events[i]
			if e.Kind != trace.Mark {
				now = max(now, e.Micros)
			}
			switch e.Kind {
			case trace.Alloc:
				large := e.Stream == 0 && mem.Round(e.Size) > 64*mem.KiB
				wish := mem.Addr(0)
				if large && noPlan == "" {
					if i := len(seen); i < len(wishes) && wishes[i].size == mem.Round(e.Size) {
						wish = wishes[i].at
						matched++
					}
					seen = append(seen, obs{size: mem.Round(e.Size), id: e.ID, from: tick, to: -1})
					index[e.ID] = len(seen)
					tick++
				}
				total++
				before := s.e.stats.Sticky
				g := s.run(engine.Event{Kind: engine.EvAlloc, Req: 1, Size: e.Size, Stream: e.Stream, Wish: wish})
				hits += int(s.e.stats.Sticky - before)
				if g.Kind != engine.OpGrant {
					t.Fatalf("%s: %+v", f, g)
				}
				s.at[e.ID] = g.Addr
				live[e.ID] = mem.Round(e.Size)
				load += mem.Round(e.Size)
				peak, stepPeak = max(peak, load), max(stepPeak, load)
			case trace.FreeRequested:
				next := tr.Events[i+1]
				if next.Kind == trace.FreeCompleted && next.ID == e.ID {
					s.run(engine.Event{Kind: engine.EvFree, Addr: s.at[e.ID]})
				} else {
					s.run(engine.Event{Kind: engine.EvRecord, Addr: s.at[e.ID], Stream: mem.StreamID(1<<40 + e.ID)})
					fences[e.ID] = s.run(engine.Event{Kind: engine.EvFree, Addr: s.at[e.ID]})
				}
			case trace.FreeCompleted:
				if op, ok := fences[e.ID]; ok {
					delete(fences, e.ID)
					s.run(engine.Event{Kind: engine.EvFence, Fence: op.Fence})
				}
				load -= live[e.ID]
				if i := index[e.ID]; i > 0 {
					seen[i-1].to = tick
					tick++
					delete(index, e.ID)
				}
			case trace.EmptyCache:
				s.run(engine.Event{Kind: engine.EvTrim})
			case trace.Mark:
				if e.Mark == "end" || strings.HasPrefix(e.Mark, "step ") {
					s.run(engine.Event{Kind: engine.EvBoundary, Driver: int64(1e3 * (s.time - d0)), Took: 1e3 * (now - begin)})
					if begin > 0 || len(steps) > 0 {
						steps = append(steps, step{s.time - d0, now - begin, stepPeak, s.e.stats.Stitches - st0, s.held})
					} else {
						steps = append(steps, step{})
					}
					wishes = wishes[:0]
					if len(steps) >= 3 && noPlan == "" {
						var free []engine.Range
						s.e.Gaps(0, false, func(r engine.Range) { free = append(free, r) })
						var over mem.Bytes
						wishes, over = planWishes(seen, free, tick)
						if os.Getenv("DBG") != "" {
							fmt.Printf("   step %d: matched %d hits %d of %d, next plan of %d, beyond the gaps %d MiB, free gaps %d\n", len(steps), matched, hits, total, len(seen), over>>20, len(free))
						}
					}
					matched, hits, total = 0, 0, 0
					seen, tick = seen[:0], 0
					clear(index)
					begin, d0, stepPeak, st0 = now, s.time, load, s.e.stats.Stitches
				}
			}
		}
		if err := s.e.Check(); err != nil {
			t.Fatal(f, err)
		}
		steps = steps[1:]
		from := 2
		for i, x := range steps {
			if float64(x.peak) >= .99*float64(peak) {
				from = max(from, i+1)
				break
			}
		}
		var dr, tk float64
		var st uint64
		for _, x := range steps[min(from, len(steps)):] {
			dr += x.driver
			tk += float64(x.took)
			st += x.st
		}
		share := 0.0
		if tk > 0 {
			share = dr / tk * 100
		}
		w := 100 * (1 - float64(peak)/float64(s.peak))
		var fp []string
		for _, x := range steps[:min(6, len(steps))] {
			fp = append(fp, fmt.Sprintf("%.1f/%d/%.2f", x.driver/1e3, x.st, float64(x.held)/float64(1<<30)))
		}
		fmt.Printf("%-22s load %6.2f waste %5.2f driver %6.3f%% total %5.0f ms steady stitches %d of %d patches %d steps %d  %v\n", strings.TrimSuffix(filepath.Base(f), ".csv.gz"), float64(peak)/(1<<30), w, share, s.time/1e3, st, s.e.stats.Stitches, s.e.stats.Patches, len(steps), fp)
		sumW += w
		sumD += share
		n++
	}
	fmt.Printf("average %.3f %.3f\n", sumW/float64(n), sumD/float64(n))
}

type obs struct {
	size     mem.Bytes
	id       int64
	from, to int
}
type wished struct {
	size mem.Bytes
	at   mem.Addr
}

// planWishes lays what was seen into the gaps, the smaller gaps first.
func planWishes(seen []obs, free []engine.Range, end int) ([]wished, mem.Bytes) {
	out := make([]wished, len(seen))
	left := make([]int, len(seen))
	for i, o := range seen {
		out[i].size = o.size
		left[i] = i
	}
	slices.SortStableFunc(free, func(a, b engine.Range) int { return cmp.Compare(a.Size, b.Size) })
	for gi, r := range free {
		last := gi == len(free)-1
		if !last && r.Size < 2*mem.MiB {
			continue
		}
		if last {
			bufs := make([]plan.Buffer, len(left))
			for k, i := range left {
				to := seen[i].to
				if to < 0 {
					to = end
				}
				bufs[k] = plan.Buffer{Lower: mem.Tick(seen[i].from), Upper: mem.Tick(to), Size: seen[i].size}
			}
			sol := plan.Solve(bufs, plan.Options{Descents: 64})
			for k, i := range left {
				out[i].at = r.Addr + mem.Addr(sol.Offsets[k])
			}
			if sol.Makespan > r.Size {
				return out, sol.Makespan - r.Size
			}
			return out, 0
		}
		// first fit by size below the gap's end
		slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(seen[b].size, seen[a].size) })
		type box struct {
			lo, hi   mem.Bytes
			from, to int
		}
		var placed []box
		var rest []int
		for _, i := range left {
			o := seen[i]
			to := o.to
			if to < 0 {
				to = end
			}
			at := mem.Bytes(0)
			if o.size <= r.Size {
				for _, b := range placed {
					if b.from >= to || b.to <= o.from || b.hi <= at {
						continue
					}
					if b.lo-at >= o.size {
						break
					}
					at = b.hi
				}
			} else {
				at = r.Size
			}
			if at+o.size > r.Size {
				rest = append(rest, i)
				continue
			}
			out[i].at = r.Addr + mem.Addr(at)
			k, _ := slices.BinarySearchFunc(placed, at, func(b box, at mem.Bytes) int { return cmp.Compare(b.lo, at) })
			placed = slices.Insert(placed, k, box{at, at + o.size, o.from, to})
		}
		left = rest
		slices.Sort(left)
	}
	return out, 0
}

func envCfg(c *Config) {
	if v := os.Getenv("FIRST"); v != "" {
		fmt.Sscan(v, &c.First)
	}
	if v := os.Getenv("AT"); v != "" {
		fmt.Sscan(v, &rebuildAt)
	}
	if v := os.Getenv("DEAR"); v != "" {
		fmt.Sscan(v, &c.Dear)
	}
	if v := os.Getenv("MOST"); v != "" {
		var n int
		fmt.Sscan(v, &n)
		c.HandleMost = mem.Bytes(n) * mem.MiB
	}
}
