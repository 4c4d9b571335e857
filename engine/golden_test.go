package engine

import (
	"fmt"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the scripts in testdata. Commands:
//
//	new [limit=] [slack=] [first=] [stitch=] [sticky=] [aliases=] [private=]   an engine without memory
//	alloc req= size= [stream=] [pool=] [whole]             EvAlloc
//	free req= · record req= stream= · fence n= · boundary · trim [pool=] · first
//	fail at= [code=]                                       EvFailed for the last batch
//	resume                                                 EvResume for the last batch
//	stats                                                  the counts that are not zero
//
// The ops are printed with addresses relative to Config.Base. Nothing performs
// them: resume and fail play the runner.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var g golden
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := g.run(t, d)
			if err := g.eng.Check(); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

type golden struct {
	eng    *Engine
	blocks map[int]mem.Addr
	last   uint64
}

func (g *golden) run(t *testing.T, d *datadriven.TestData) string {
	var ev Event
	var req int
	var n, pool, streamID uint64
	var text string
	d.MaybeScanArgs(t, "req", &req)
	d.MaybeScanArgs(t, "n", &n)
	d.MaybeScanArgs(t, "pool", &pool)
	d.MaybeScanArgs(t, "stream", &streamID)
	ev.Pool, ev.Stream, ev.Addr = pool, mem.StreamID(streamID), g.blocks[req]
	switch d.Cmd {
	case "new":
		g.open(t, d)
		return "ok\n"
	case "stats":
		return g.stats()
	case "alloc":
		d.ScanArgs(t, "size", &text)
		size, err := mem.ParseBytes(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		ev.Kind, ev.Req, ev.Size, ev.Whole, ev.Addr = EvAlloc, uint64(req), size, d.HasArg("whole"), 0
	case "free":
		ev.Kind = EvFree
	case "record":
		ev.Kind = EvRecord
	case "fence":
		ev.Kind, ev.Fence = EvFence, driver.Fence(n)
	case "boundary":
		ev.Kind = EvBoundary
	case "trim":
		ev.Kind = EvTrim
	case "first":
		ev.Kind = EvFirst
	case "resume":
		ev.Kind, ev.Req = EvResume, g.last
	case "fail":
		ev.Kind, ev.Code = EvFailed, driver.CodeOutOfMemory
		d.ScanArgs(t, "at", &ev.Failed)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return g.print(g.eng.Step(ev, nil))
}

func (g *golden) open(t *testing.T, d *datadriven.TestData) {
	cfg := DefaultConfig()
	cfg.Slack, cfg.First = 0, 0
	var limit string
	if d.MaybeScanArgs(t, "limit", &limit) {
		var err error
		if cfg.Limit, err = mem.ParseBytes(limit); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	if d.MaybeScanArgs(t, "aliases", &cfg.MaxAliases) {
		cfg.aliasFloor = 0
	}
	d.MaybeScanArgs(t, "private", &cfg.PatchPages)
	var percent int
	if d.MaybeScanArgs(t, "slack", &percent) {
		cfg.Slack = float64(percent) / 100
	}
	if d.MaybeScanArgs(t, "first", &percent) {
		cfg.First = float64(percent) / 100
	}
	d.MaybeScanArgs(t, "stitch", &cfg.Stitch)
	d.MaybeScanArgs(t, "sticky", &cfg.Sticky)
	*g = golden{eng: New(cfg), blocks: map[int]mem.Addr{}}
}

func (g *golden) print(ops []Op) string {
	var b strings.Builder
	for i := 0; i < len(ops); i++ {
		op := ops[i]
		at := fmt.Sprintf("%.6g MiB", float64(op.Addr-g.eng.cfg.Base)/float64(mem.MiB))
		switch op.Kind {
		case OpCreate, OpRelease:
			j := i
			for j+1 < len(ops) && ops[j+1].Kind == op.Kind && ops[j+1].Handle == ops[j].Handle+1 {
				j++
			}
			fmt.Fprintf(&b, "%s %s\n", op.Kind, span(int(op.Handle), int(ops[j].Handle)))
			i = j
		case OpMap:
			j := i
			for j+1 < len(ops) && ops[j+1].Kind == OpMap && ops[j+1].Handle == ops[j].Handle+1 {
				j++
			}
			fmt.Fprintf(&b, "map %s at %s\n", span(int(op.Handle), int(ops[j].Handle)), at)
			i = j
		case OpAccess, OpUnmap:
			fmt.Fprintf(&b, "%s %s, %v\n", op.Kind, at, op.Size)
		case OpSync:
			fmt.Fprintf(&b, "sync stream %d\n", op.Stream)
		case OpRecord:
			fmt.Fprintf(&b, "record stream %d, fence %d\n", op.Stream, op.Fence)
		case OpResume:
			g.last = op.Req
			b.WriteString("resume\n")
		case OpGrant:
			g.blocks[int(op.Req)] = op.Addr
			fmt.Fprintf(&b, "grant %d at %s, %v\n", op.Req, at, op.Size)
		case OpRefuse:
			fmt.Fprintf(&b, "refuse %d: %v, code %d\n", op.Req, op.Reason, op.Code)
		default:
			fmt.Fprintf(&b, "%s\n", op.Kind)
		}
	}
	if len(ops) == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

func span(a, b int) string {
	if a == b {
		return fmt.Sprintf("handle %d", a)
	}
	return fmt.Sprintf("handles %d-%d", a, b)
}

func (g *golden) stats() string {
	s := g.eng.Stats()
	return fmt.Sprintf("load %v, pending %v, handles %d (free %d), mapped %d, views %d\n",
		s.Load, s.Pending, s.Handles, s.FreeHandles, s.Mapped, s.Views)
}
