package onerange

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestScripts plays the scripts in testdata, which are the range's specification: an event a line,
// and after it what the range answers; -rewrite renews the answers. The device that performs them
// holds every script to the driver's rules, too. The first words of an event:
//
//	malloc NAME SIZE     with stream=, pool=, planned=OFFSET, wait, lend
//	again NAME           a freed block at its address, with stream=, pool=
//	capture              with pool=
//	free NAME            record NAME stream=
//	pass                 the oldest fence
//	persistent           with stream=, which is never destroyed
//	fail KIND N          the driver refuses the Nth operation of that kind from here on: no!
//	step
//	trim [SIZE]          as much is enough; with pool=
//	rest SIZE [UNIT]     so much is lent to nobody, and rests once its fences have passed
//	rise                 what has rested longest has its memory again
//	layout               what lies where: of each arena, by offset from the window's base
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &scripted{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "device": // a fresh one, with capacity= and limit=
				cfg := DefaultConfig()
				cfg.Limit = s.amount(t, d, "limit")
				s = &scripted{device: newDevice(cfg), names: map[string]uint64{},
					persistent: map[mem.StreamID]bool{}}
				s.capacity = unitsOf(s.amount(t, d, "capacity"))
				return ""
			case "events":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					words := strings.Fields(line)
					if words[0] == "layout" {
						out.WriteString("layout" + s.layout() + "\n")
						continue
					}
					fmt.Fprintf(&out, "%-28s %s\n", strings.TrimSpace(line), s.line(t, d, words))
				}
				return out.String()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// scripted is a device that a script names the blocks of.
type scripted struct {
	*device
	names      map[string]uint64 // requests
	last       uint64
	persistent map[mem.StreamID]bool
	fails      [][]string // kinds of operations, and how many are done before one is refused
}

// opNames are the operations as scripts write them.
var opNames = map[engine.OpKind]string{
	engine.OpCreate: "create", engine.OpMap: "map", engine.OpAccess: "access",
	engine.OpUnmap: "unmap", engine.OpRelease: "release", engine.OpRest: "rest",
	engine.OpFence: "record", engine.OpSync: "sync", engine.OpUnknown: "unknown",
}

// refuses reports whether the driver refuses an operation, each as often as a script says.
func (s *scripted) refuses(_ int, op engine.Op) bool {
	for i, f := range s.fails {
		if f[0] != opNames[op.Kind] {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		if f[1] = strconv.Itoa(n - 1); n == 1 {
			s.fails = slices.Delete(s.fails, i, i+1)
			s.done = append(s.done, engine.Op{Code: driver.CodeOutOfMemory})
			return true
		}
		return false
	}
	return false
}

func (s *scripted) amount(t *testing.T, d *datadriven.TestData, key string) (n mem.Bytes) {
	if !d.HasArg(key) {
		return 0
	}
	var text string
	d.ScanArgs(t, key, &text)
	n, err := mem.ParseBytes(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

// line plays an event and says what came of it.
func (s *scripted) line(t *testing.T, d *datadriven.TestData, words []string) string {
	ev := engine.Event{Req: s.last + 1}
	var plain []string
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "stream":
			ev.Stream = mem.StreamID(n)
		case "pool":
			ev.Pool, _ = strconv.ParseUint(value, 10, 64)
		case "planned":
			at, err := mem.ParseBytes(value)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			ev.Addr = s.eng.cfg.Base + mem.Addr(at)
		case "wait":
			ev.Means |= engine.MeansWait
		case "lend":
			ev.Means |= engine.MeansBorrow
		case "rises":
			ev.Means |= engine.MeansRise
		default:
			plain = append(plain, w)
		}
	}
	s.done = s.done[:0]
	var err error
	switch plain[0] {
	case "malloc":
		s.last++
		ev.Kind, ev.Persistent = engine.EvAlloc, s.persistent[ev.Stream]
		ev.Asked, _ = mem.ParseBytes(plain[2])
		s.names[plain[1]] = ev.Req
		err = s.step(ev)
	case "again":
		s.last++
		was := s.granted[s.names[plain[1]]]
		ev.Kind, ev.Asked, ev.Addr, ev.Exact = engine.EvAlloc, was.Size, was.Addr, true
		if err = s.step(ev); s.blocks[ev.Req].Size > 0 {
			s.names[plain[1]] = ev.Req
		}
	case "capture":
		ev.Kind = engine.EvCapture
		err = s.step(ev)
	case "free":
		err = s.free(s.names[plain[1]])
	case "record":
		err = s.record(s.names[plain[1]], ev.Stream)
	case "pass":
		err = s.pass(0)
	case "fail":
		s.fails = append(s.fails, plain[1:])
		s.failing = s.refuses
	case "persistent":
		s.persistent[ev.Stream] = true
	case "step":
		ev.Kind = engine.EvBoundary
		err = s.step(ev)
	case "rest":
		ev.Kind = engine.EvLend
		ev.Asked, _ = mem.ParseBytes(plain[1])
		if len(plain) > 2 {
			ev.Unit, _ = mem.ParseBytes(plain[2])
		}
		err = s.step(ev)
	case "rise":
		err = s.rise(0)
	case "trim":
		ev.Kind = engine.EvTrim
		if len(plain) > 1 {
			ev.Asked, _ = mem.ParseBytes(plain[1])
		}
		err = s.step(ev)
	default:
		d.Fatalf(t, "unknown event %q", plain[0])
	}
	if err == nil {
		err = s.eng.Check()
	}
	if err != nil {
		d.Fatalf(t, "%v: %v", words, err)
	}
	return s.told()
}

// told says what the device was asked to do: runs of one kind together.
func (s *scripted) told() string {
	var out []string
	for _, run := range runs(s.done) {
		var sum mem.Bytes
		for _, op := range run {
			sum += op.Size
		}
		switch op := run[0]; op.Kind {
		case engine.OpCreate, engine.OpUnmap:
			out = append(out, fmt.Sprintf("%s %d × %v", opNames[op.Kind], len(run),
				sum/mem.Bytes(len(run))))
		case engine.OpGrant:
			out = append(out, "at "+s.offset(op.Addr))
		case engine.OpRefuse:
			out = append(out, fmt.Sprintf("refused: %v", op.Reason))
		case engine.OpFence:
			out = append(out, fmt.Sprintf("fence on stream %d", op.Stream))
		case engine.OpMap, engine.OpRelease, engine.OpRest:
			out = append(out, fmt.Sprintf("%s %d", opNames[op.Kind], len(run)))
		case 0:
			out = append(out, "no!")
		case engine.OpSync, engine.OpUnknown:
			out = append(out, opNames[op.Kind])
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

// runs are operations of one kind, one after the other.
func runs(ops []engine.Op) (all [][]engine.Op) {
	for i, op := range ops {
		if n := len(all); i > 0 && ops[i-1].Kind == op.Kind && op.Kind != engine.OpFence {
			all[n-1] = append(all[n-1], op)
		} else {
			all = append(all, []engine.Op{op})
		}
	}
	return all
}

// offset says how far after the window's base an address lies, to the byte.
func (s *scripted) offset(a mem.Addr) string {
	n := mem.Bytes(a - s.eng.cfg.Base)
	if n%mem.MiB == 0 {
		return fmt.Sprintf("%d MiB", n/mem.MiB)
	}
	return fmt.Sprintf("%d KiB", n/mem.KiB)
}

// layout says what lies where.
func (s *scripted) layout() string {
	var out strings.Builder
	names := map[mem.Addr]string{}
	for name, req := range s.names {
		if op, live := s.blocks[req]; live {
			names[op.Addr] = name
		}
	}
	for x := range s.eng.allArenas() {
		if s.eng.arenas[x].held == 0 {
			continue
		}
		pieces := map[unit]string{}
		for g := range s.eng.idx.Gaps(x) {
			pieces[g.Lo] = fmt.Sprintf("· %v", bytesOf(g.Size()))
		}
		views := ""
		for b := range s.eng.idx.Blocks() {
			what := fmt.Sprintf("%s %v", names[s.eng.addr(b.At)], bytesOf(b.Size))
			switch {
			case b.Arena != x:
			case b.InView:
				views += fmt.Sprintf("; in a view: %s", what)
			default:
				pieces[b.At] = what
			}
		}
		fmt.Fprintf(&out, "\n  stream %d, arena %d:", s.eng.heaps[heapAt(x)].stream, x%2)
		for _, at := range slices.Sorted(maps.Keys(pieces)) {
			fmt.Fprintf(&out, " | %s", pieces[at])
		}
		fmt.Fprintf(&out, " |%s", views)
	}
	return out.String()
}
