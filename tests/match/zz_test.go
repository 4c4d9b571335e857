package match

import (
	"fmt"
	"os"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
	"testing"
)

// maps ref op -> slot index as addLearned does
func slotsOfRef(p *plan.Stream, ref *plan.Step) map[int32]uint32 { // ref op -> slot
	// walk ops and entries in parallel
	m := map[int32]uint32{}
	ents := p.Tapes[0].Entries
	ei := 0
	for i, op := range ref.Ops {
		if ei >= len(ents) {
			break
		}
		if op.Free {
			if ents[ei].Frees() { // matches if block slot equal
				a := ref.Blocks[op.Block].Alloc
				if a >= 0 {
					if s, ok := m[a]; ok && int32(s) == ents[ei].Slot() {
						ei++
					}
				}
			}
			continue
		}
		if !ents[ei].Frees() && (p.Slots[ents[ei].Slot()].Size >= ref.Blocks[op.Block].Size) && p.Slots[ents[ei].Slot()].Size-p.Slots[ents[ei].Slot()].Spread <= ref.Blocks[op.Block].Size {
			m[int32(i)] = uint32(ents[ei].Slot())
			ei++
		}
	}
	if ei != len(ents) {
		fmt.Println("WARN", ei, len(ents))
	}
	return m
}
func TestDiag(t *testing.T) {
	name := os.Getenv("TR")
	if name == "" {
		t.Skip()
	}
	var noise float64
	fmt.Sscan(os.Getenv("NOISE"), &noise)
	r := load(t, name).disturb(1, noise)
	steps := r.observe()
	k := len(steps) - 1
	n0 := 3
	fmt.Sscan(os.Getenv("LEARN"), &n0)
	p, err := plan.MakeIrregular(steps[max(1, k-n0):k], plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref, test := steps[k-1][0], steps[k][0]
	to := plan.DebugAlign(test, ref)
	ms := slotsOfRef(&p.Streams[0], ref)
	tape := stream.New(layout(t, &p.Streams[0]), 1<<44)
	tape.Step()
	type B struct {
		a    mem.Addr
		tk   stream.Ticket
		slot bool
		tr   uint32
		got  uint32
		size mem.Bytes
	}
	live := map[int32]B{}
	op := 0
	var right, wrong, miss, none int
	var br, bw, bm mem.Bytes
	show := 0
	fmt.Sscan(os.Getenv("SHOW"), &show)
	inherited := map[int32]bool{}
	_ = inherited
	for _, e := range r.steps[k] {
		if e.stream != 0 {
			continue
		}
		switch e.kind {
		case begin:
			truth := uint32(stream.None)
			if to[op] >= 0 {
				if s, ok := ms[to[op]]; ok {
					truth = s
				}
			}
			got := tape.Alloc(e.size)
			pos := got.Slot
			if got.Ticket != 0 {
				pos = tape.TicketSlot(got.Ticket)
			}
			if got.Guest {
				pos = tape.GuestSlot(got.Addr)
			}
			switch {
			case pos == truth && pos != stream.None:
				right++
				br += e.size
			case pos == truth:
				none++
			case pos == stream.None:
				miss++
				bm += e.size
			default:
				wrong++
				bw += e.size
			}
			if show > 0 && pos != truth {
				show--
				fmt.Printf("op %d size %d truth %d got %d cursor %d lost %v\n", op, e.size, int32(truth), int32(pos), tape.State.Cursor, tape.Lost())
			}
			live[e.id] = B{got.Addr, got.Ticket, got.Slot != stream.None || got.Guest, truth, pos, e.size}
			op++
		case free:
			b := live[e.id]
			if b.slot {
				if e.later {
					tape.Pin(b.a)
				} else {
					tape.Free(b.a)
				}
			} else {
				tape.Ended(b.tk)
			}
			op++
		case end:
			b := live[e.id]
			if b.slot {
				tape.Release(b.a)
			}
			delete(live, e.id)
		}
	}
	fmt.Println(name, "right", right, br, "wrong", wrong, bw, "missed", miss, bm, "none", none, "ops", op, len(test.Ops), "resync", tape.State.Resyncs, "late", tape.State.Late)
}
func TestDump(t *testing.T) {
	name := os.Getenv("TR")
	if name == "" {
		t.Skip()
	}
	var a, b int
	fmt.Sscan(os.Getenv("FROM"), &a)
	fmt.Sscan(os.Getenv("TO"), &b)
	r := load(t, name)
	steps := r.observe()
	k := len(steps) - 1
	p, _ := plan.MakeIrregular(steps[max(1, k-3):k], plan.Options{})
	if os.Getenv("TAPE") != "" {
		for i := a; i < b; i++ {
			e := p.Streams[0].Tapes[0].Entries[i]
			s := p.Streams[0].Slots[e.Slot()]
			if e.Frees() {
				fmt.Println(i, "  F", e.Slot())
			} else {
				fmt.Println(i, "A", e.Slot(), s.Size-s.Spread, s.Size, s.Pool)
			}
		}
		return
	}
	test := steps[k][0]
	tok := plan.DebugTokens(test)
	for i := a; i < b; i++ {
		op := test.Ops[i]
		bl := test.Blocks[op.Block]
		fmt.Println(i, op.Free, op.Block, bl.Size, "alloc", bl.Alloc, "free", bl.Free, "tok", tok[i])
	}
}
func TestBig(t *testing.T) {
	name := os.Getenv("TR")
	if name == "" {
		t.Skip()
	}
	r := load(t, name)
	steps := r.observe()
	k := len(steps) - 1
	n0 := 3
	fmt.Sscan(os.Getenv("LEARN"), &n0)
	p, _ := plan.MakeIrregular(steps[max(1, k-n0):k], plan.Options{})
	s := p.Streams[0]
	fr := map[int32]int{}
	al := map[int32]int{}
	for i, e := range s.Tapes[0].Entries {
		if e.Frees() {
			fr[e.Slot()] = i
		} else {
			al[e.Slot()] = i
		}
	}
	for i, sl := range s.Slots {
		if sl.Size > 400<<20 {
			fmt.Println(i, sl.Size, sl.Spread, sl.Pool, sl.Offset>>20, al[int32(i)], fr[int32(i)])
		}
	}
	for i := max(1, k-n0); i <= k; i++ {
		fmt.Print("step", i, ": ")
		for _, b := range steps[i][0].Blocks {
			if b.Size > 400<<20 && b.Alloc >= 0 {
				fmt.Print(b.Size, " @", b.Alloc, "-", b.Free, "; ")
			}
		}
		fmt.Println()
	}
}

// why says what lies in the pool when it is fullest.
func (r *run) why(t testing.TB, p *plan.Plan, k int) {
	kindOf := map[int32]string{}
	live := map[int32]mem.Bytes{}
	_ = live
	tapes := make([]*stream.Tape, len(p.Streams))
	for i := range p.Streams {
		tapes[i] = stream.New(layout(t, &p.Streams[i]), mem.Addr(i+1)<<44)
		tapes[i].Step()
	}
	blocks := map[int32]block{}
	var pool, worst mem.Bytes
	sum := map[string]mem.Bytes{}
	at := map[string]mem.Bytes{}
	arenaUse, arenaAt := mem.Bytes(0), mem.Bytes(0)
	worstOp := 0
	for i, e := range r.steps[k] {
		switch e.kind {
		case begin:
			got := tapes[e.stream].Alloc(e.size)
			b := block{size: e.size, stream: e.stream, addr: got.Addr, ticket: got.Ticket, slot: got.Slot != stream.None || got.Guest}
			blocks[e.id] = b
			if b.slot {
				kindOf[e.id] = "arena"
				arenaUse += e.size
			} else {
				kind := "unmatched"
				if got.Ticket != 0 && tapes[e.stream].TicketSlot(got.Ticket) != stream.None {
					sl := p.Streams[e.stream].Slots[tapes[e.stream].TicketSlot(got.Ticket)]
					switch {
					case sl.Pool && got.Ends == stream.None:
						kind = "pool-noend"
					case sl.Pool:
						kind = "pool-nohole"
					case sl.Size == e.size:
						kind = "slot-refused"
					default:
						kind = "slot-odd"
					}
				} else if got.Pool {
					kind = "pool-noend"
				}
				kindOf[e.id] = kind
				sum[kind] += e.size
				pool += e.size
				if pool > worst {
					worst = pool
					worstOp = i
					arenaAt = arenaUse
					at = map[string]mem.Bytes{}
					for a, b := range sum {
						at[a] = b
					}
				}
			}
		case free:
			b := blocks[e.id]
			switch {
			case b.size == 0:
			case b.slot && e.later:
				tapes[b.stream].Pin(b.addr)
			case b.slot:
				tapes[b.stream].Free(b.addr)
			default:
				tapes[b.stream].Ended(b.ticket)
			}
		case end:
			b := blocks[e.id]
			if b.size == 0 {
				continue
			}
			delete(blocks, e.id)
			if b.slot {
				tapes[b.stream].Release(b.addr)
				arenaUse -= b.size
			} else {
				pool -= b.size
				sum[kindOf[e.id]] -= b.size
			}
		}
	}
	t.Logf("   worst at %d of %d: pool of the step %v, arena used %v: %v", worstOp, len(r.steps[k]), worst, arenaAt, at)
}

func init() { if os.Getenv("WHY") != "" { debugWhy = (*run).why } }
