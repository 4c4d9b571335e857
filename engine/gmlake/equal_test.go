package gmlake

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// perform runs one event. Every driver call succeeds but for creates beyond so many
// handles. It returns the answer to a request.
func perform(p *Pool, pages int, ev engine.Event) (answer engine.Op) {
	for {
		ops := p.Step(ev, nil)
		handles, again := p.stats.Handles, false
		for i, op := range ops {
			switch op.Kind {
			case engine.OpCreate:
				if handles++; handles > pages {
					ev, again = engine.Event{Kind: engine.EvFailed, Failed: i,
						Code: driver.CodeOutOfMemory}, true
				}
			case engine.OpResume:
				ev, again = engine.Event{Kind: engine.EvResume, Req: op.Req}, true
			case engine.OpGrant, engine.OpRefuse:
				answer = op
			}
			if again {
				break
			}
		}
		if !again {
			return answer
		}
	}
}

// TestEqualsModel: on random runs, with and without enough memory, the pool places
// every block where the model does, holds as much, and refuses the same requests.
func TestEqualsModel(t *testing.T) {
	stitches, evicted, refused, doomed := uint64(0), uint64(0), uint64(0), 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := DefaultConfig()
		cfg.FragLimit = []mem.Bytes{0, 2 * mem.MiB, 16 * mem.MiB, 64 * mem.MiB}[rng.IntN(4)]
		cfg.DefragLevel = []int{0, 0, 0, 1, 2}[rng.IntN(5)]
		cfg.ReuseLimit = []float64{1, 1.5, 3, 10}[rng.IntN(4)]
		cfg.AutoGC = []mem.Bytes{1000 * mem.GiB, 256 * mem.MiB, 2 * mem.GiB}[rng.IntN(3)]
		pages := []int{4096, 150, 60, 320}[rng.IntN(4)]
		p, m := New(cfg), &model{cfg: cfg, pages: pages, next: cfg.Base}
		trim := func() {
			perform(p, pages, engine.Event{Kind: engine.EvTrim})
			m.flush()
			m.dropIdle()
		}
		var live []*modelBlock
		for n := 1; n < 400; n++ {
			switch k := rng.IntN(100); {
			case k < 52 || len(live) == 0:
				size := mem.Bytes(1+rng.IntN(1<<10)) << rng.IntN(17)
				stream := mem.StreamID(max(rng.IntN(6)-4, 0))
				if n%2 == 0 { // few sizes, so that sBlocks serve again
					size, stream = mem.Bytes(5+rng.IntN(20))*2*mem.MiB, 0
				}
				op := perform(p, pages, engine.Event{Kind: engine.EvAlloc, Req: uint64(n),
					Asked: size, Stream: stream})
				b := m.alloc(size, stream)
				if (op.Kind == engine.OpGrant) != (b != nil) || b != nil && op.Addr != b.addr {
					t.Fatalf("seed %d, event %d: %v on stream %d: %+v, the model has it at %+v",
						seed, n, size, stream, op, b)
				}
				if b != nil {
					live = append(live, b)
				}
				if b != nil && b.used < len(b.chunks) {
					trim() // while an sBlock is used in part
				}
			case k < 96:
				i := rng.IntN(len(live))
				perform(p, pages, engine.Event{Kind: engine.EvFree, Addr: live[i].addr})
				perform(p, pages, engine.Event{Kind: engine.EvBoundary}) // doomed sBlocks go
				m.free(live[i])
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			default:
				trim()
			}
			if p.stats.Handles != m.held() {
				t.Fatalf("seed %d, event %d: %d handles, the model has %d", seed, n,
					p.stats.Handles, m.held())
			}
			if n%16 == 0 {
				if err := p.Check(); err != nil {
					t.Fatalf("seed %d, event %d: %v", seed, n, err)
				}
			}
		}
		s := p.Stats()
		stitches, evicted = stitches+s.Stitches, evicted+s.Evicted
		refused, doomed = refused+s.Refused, doomed+m.doomed
	}
	t.Logf("%d stitches, %d sBlocks dropped, %d doomed, %d requests refused", stitches, evicted,
		doomed, refused)
	if stitches < 100 || evicted < 100 || refused < 100 || doomed == 0 {
		t.Error("the runs miss what they are for")
	}
}

// row is what the released code reported after an operation.
type row struct {
	Op                 []any
	Addr               string
	Allocated          mem.Bytes
	Active             mem.Bytes
	Reserved           mem.Bytes
	Segments           int
	InactiveSplitBytes mem.Bytes `json:"inactive_split_bytes"`
	InactiveSplit      int       `json:"inactive_split"`
	Physical           mem.Bytes
}

// TestVectors: the pool does what the released code did, run on a fake driver, in
// testdata/vectors.json: every address and every statistic.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors map[string]struct {
		Capacity mem.Bytes
		Params   map[string]string
		Rows     []row
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) != 3 {
		t.Fatalf("%d vectors: %v", len(vectors), err)
	}
	for name, v := range vectors {
		cfg := DefaultConfig()
		if text, ok := v.Params["fragLimit"]; ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			cfg.FragLimit = mem.Bytes(n)
		}
		p, pages := New(cfg), int(v.Capacity/pageSize)
		at := map[string]mem.Addr{}
		for i, want := range v.Rows {
			got := row{Op: want.Op, Addr: "-"}
			switch want.Op[0] {
			case "a":
				op := perform(p, pages, engine.Event{Kind: engine.EvAlloc, Req: uint64(i + 1),
					Asked: mem.Bytes(want.Op[2].(float64))})
				at[want.Op[1].(string)] = op.Addr
				got.Addr = p.place(op.Addr)
			case "f":
				perform(p, pages, engine.Event{Kind: engine.EvFree, Addr: at[want.Op[1].(string)]})
			case "e":
				perform(p, pages, engine.Event{Kind: engine.EvTrim})
			}
			p.report(&got)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s, row %d:\n got %+v\nwant %+v", name, i, got, want)
			}
		}
	}
}

// place names an address as the vectors do. The original has small segments from
// cudaMalloc; here they lie among the others. No vector returns a small segment.
func (p *Pool) place(a mem.Addr) string {
	before, in := mem.Addr(0), false
	for s := range p.segments {
		if g := &p.segments[s]; g.first != none && p.blocks[g.first].kind == small &&
			p.addr(g.page) <= a {
			in = a < p.addr(g.page+1)
			before += mem.Addr(pageSize)
		}
	}
	if in {
		return fmt.Sprint("RT+", uint64(before-mem.Addr(pageSize)+a%mem.Addr(pageSize)))
	}
	return fmt.Sprint("VM+", uint64(a-p.cfg.Base-before))
}

// report counts what the original's statistics say.
func (p *Pool) report(r *row) {
	r.Segments = int(p.stats.Stitches)
	for s := range p.segments {
		if g := &p.segments[s]; g.first != none {
			r.Segments++
			r.Reserved += mem.Bytes(len(g.chunks)) * pageSize
		}
	}
	for i := range p.blocks {
		switch b := &p.blocks[i]; {
		case b.state == gone || b.kind == stitched:
		case b.state != free:
			r.Active += b.size
		case b.prev != none || b.next != none:
			r.InactiveSplit++
			r.InactiveSplitBytes += b.size
		}
	}
	for _, b := range p.at {
		if c := &p.blocks[b]; c.state == live {
			r.Allocated += c.asked
			if c.kind != small {
				r.Allocated += mem.RoundUp(c.asked, pageSize) - c.asked
			}
		}
	}
	r.Physical = mem.Bytes(p.stats.Handles) * pageSize
}
