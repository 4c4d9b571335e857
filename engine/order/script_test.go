package order

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestScripts plays the scripts in testdata, which specify fences and waits: an event a line, and
// after it what the driver was asked to do; -rewrite renews the answers. The first words:
//
//	at TIME              the host's time
//	pass STREAM          the device has done all work on it that was queued so far
//	malloc NAME SIZE     with stream=, pool=, nowait (it cannot wait), capturing, gone (its stream
//	                     may be destroyed); a NAME that waits comes again
//	free NAME            with deferred, idle
//	use NAME stream=     another stream uses it
//	events off, on       with stream=: the driver takes no events there
//	step, trim, poll     with pool=
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &scripted{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "device": // a fresh one, with capacity=, nowait, nolend
				s = &scripted{world: newWorld(0, Config{NoWait: d.HasArg("nowait"),
					NoLend: d.HasArg("nolend")}), names: map[string]uint64{}}
				if d.HasArg("capacity") {
					var text string
					d.ScanArgs(t, "capacity", &text)
					s.capacity = size(t, text)
				}
				return ""
			case "events":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					told := s.line(t, strings.Fields(line))
					fmt.Fprintf(&out, "%-34s %s\n", strings.TrimSpace(line), told)
				}
				return out.String()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

type scripted struct {
	*world
	names map[string]uint64 // requests
	last  uint64
}

func size(t *testing.T, text string) mem.Bytes {
	t.Helper()
	n, err := mem.ParseBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// line plays an event and says what came of it.
func (s *scripted) line(t *testing.T, words []string) string {
	t.Helper()
	ev, plain, has := s.words(words)
	switch plain[0] {
	case "at":
		at, err := time.ParseDuration(plain[1])
		if err != nil {
			t.Fatal(err)
		}
		s.now = engine.Nanos(at)
		return ""
	case "pass":
		n, _ := strconv.Atoi(plain[1])
		x := s.stream(mem.StreamID(n))
		x.passed = x.recorded
		return ""
	case "events":
		s.refuses[ev.Stream] = plain[1] == "off"
		return ""
	case "malloc":
		if s.answer.Kind != engine.OpWait || s.names[plain[1]] == 0 {
			s.last++
			s.names[plain[1]] = s.last
		}
		ev.Kind, ev.Req, ev.Asked = engine.EvAlloc, s.names[plain[1]], size(t, plain[2])
		ev.CanWait, ev.Persistent = !has["nowait"], !has["gone"]
	case "free":
		ev.Kind, ev.Addr = engine.EvFree, s.granted[s.names[plain[1]]].Addr
		ev.Deferred, ev.Idle = has["deferred"], has["idle"]
	case "use":
		ev.Kind, ev.Addr = engine.EvUseStream, s.granted[s.names[plain[1]]].Addr
	case "step":
		ev.Kind = engine.EvBoundary
	case "trim":
		ev.Kind = engine.EvTrim
	case "poll":
		ev.Kind = engine.EvPoll
	default:
		t.Fatalf("unknown event %q", plain[0])
	}
	if err := s.step(ev); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return s.told()
}

// words reads what an event comes with.
func (s *scripted) words(words []string) (ev engine.Event, plain []string, has map[string]bool) {
	has = map[string]bool{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "stream":
			ev.Stream = mem.StreamID(n)
		case "pool":
			ev.Pool, _ = strconv.ParseUint(value, 10, 64)
		case "nowait", "gone", "deferred", "idle":
			has[key] = true
		case "capturing":
			ev.Capturing = true
		default:
			plain = append(plain, w)
		}
	}
	return ev, plain, has
}
