package order

import (
	"fmt"
	"slices"
	"strings"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// world is a naive runner over a device that does nothing by itself: it keeps what was recorded on
// which stream, and tells of an event that it has passed once the stream was told to come so far.
type world struct {
	eng      *Engine
	policy   *onerange.Engine
	now      engine.Nanos
	capacity mem.Bytes // of handles; 0: no bound
	held     map[engine.Index]mem.Bytes
	streams  map[mem.StreamID]*work
	events   map[driver.Fence]recorded
	refuses  map[mem.StreamID]bool // it takes no events
	resting  []engine.Index
	noSync   bool // the device cannot be waited for
	said     []string
	answer   engine.Op          // of the last event; OpKind 0: none
	mapped   map[mem.Addr]piece // by page
	granted  map[uint64]engine.Op
}

// work is how much was queued on a stream, and how much of it is done: events, and in the fuzz test
// kernels.
type work struct{ recorded, passed int }

// piece is a page of a handle.
type piece struct {
	handle engine.Index
	page   mem.Bytes
}

type recorded struct {
	stream mem.StreamID
	n      int
}

func newWorld(capacity mem.Bytes, cfg Config) *world {
	layout := onerange.DefaultConfig()
	layout.Base, layout.Window = 1<<40, 64*mem.GiB
	p := onerange.New(layout, index.NewModel())
	return &world{eng: New(p, cfg), policy: p, capacity: capacity,
		held: map[engine.Index]mem.Bytes{}, streams: map[mem.StreamID]*work{},
		events: map[driver.Fence]recorded{}, refuses: map[mem.StreamID]bool{},
		granted: map[uint64]engine.Op{}, mapped: map[mem.Addr]piece{}}
}

func (w *world) stream(id mem.StreamID) *work {
	if w.streams[id] == nil {
		w.streams[id] = &work{}
	}
	return w.streams[id]
}

func (w *world) say(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

// step plays an event to its end, and says what the driver was asked to do.
func (w *world) step(ev engine.Event) error {
	ev.Now, w.said, w.answer = w.now, nil, engine.Op{}
	for rounds := 0; rounds < 1000; rounds++ {
		ops := w.eng.Step(ev, nil)
		failed := -1
		for i, op := range ops {
			if !w.do(op) {
				failed = i
				break
			}
		}
		switch {
		case failed >= 0:
			ev = engine.Event{Kind: engine.EvFailed, Failed: failed, Code: driver.CodeOutOfMemory,
				Req: ev.Req}
		case len(ops) == 0:
			return w.check()
		case ops[len(ops)-1].Kind == engine.OpQuery:
			ev = w.query(ops[len(ops)-1])
		case ops[len(ops)-1].Kind == engine.OpResume:
			ev = engine.Event{Kind: engine.EvResume, Req: ops[len(ops)-1].Req}
		default:
			return w.check()
		}
	}
	return fmt.Errorf("event %d is not settled", ev.Kind)
}

func (w *world) check() error {
	if err := w.eng.Check(); err != nil {
		return err
	}
	return w.policy.Check()
}

// do performs an operation; false: it fails.
func (w *world) do(op engine.Op) bool {
	switch op.Kind {
	case engine.OpCreate:
		sum := op.Size
		for _, n := range w.held {
			sum += n
		}
		if w.capacity > 0 && sum > w.capacity {
			w.say("full")
			return false
		}
		w.held[op.Handle] = op.Size
		w.say("create")
	case engine.OpMap:
		for n := mem.Bytes(0); n < op.Size; n += mem.HandleSize {
			w.mapped[op.Addr+mem.Addr(n)] = piece{op.Handle, n / mem.HandleSize}
		}
	case engine.OpUnmap:
		for n := mem.Bytes(0); n < op.Size; n += mem.HandleSize {
			delete(w.mapped, op.Addr+mem.Addr(n))
		}
	case engine.OpRelease:
		delete(w.held, op.Handle)
		w.resting = slices.DeleteFunc(w.resting,
			func(h engine.Index) bool { return h == op.Handle })
		w.say("release")
	case engine.OpRest:
		w.resting = append(w.resting, op.Handle)
	case engine.OpSync:
		w.say("sync")
		if w.noSync {
			return false
		}
		for _, s := range w.streams {
			s.passed = s.recorded
		}
	case engine.OpRecordEvent:
		return w.record(op)
	case engine.OpGrant:
		w.answer, w.granted[op.Req] = op, op
		w.say("granted")
	case engine.OpWait:
		w.answer = op
		w.say("wait (%v)", op.Reason)
	case engine.OpRefuse:
		w.answer = op
		w.say("refused: %v", op.Reason)
	case engine.OpFreed:
		w.say("freed")
	case engine.OpUnknown:
		w.say("unknown")
	}
	return true
}

func (w *world) record(op engine.Op) bool {
	if w.refuses[op.Stream] {
		w.say("no event on %d", op.Stream)
		w.eng.Step(engine.Event{Kind: engine.EvUnrecorded, Fence: op.Fence}, nil)
		return !op.Must
	}
	s := w.stream(op.Stream)
	s.recorded++
	w.events[op.Fence] = recorded{op.Stream, s.recorded}
	w.say("event on %d", op.Stream)
	return true
}

func (w *world) query(op engine.Op) engine.Event {
	w.now += op.Delay
	x, there := w.events[op.Fence]
	if !there {
		return engine.Event{Kind: engine.EvAnswer, Fence: op.Fence,
			Around: engine.Around{Now: w.now}}
	}
	passed := w.stream(x.stream).passed >= x.n
	w.say("%d: %v", x.stream, map[bool]string{true: "passed", false: "not yet"}[passed])
	return engine.Event{Kind: engine.EvAnswer, Fence: op.Fence,
		Around: engine.Around{Passed: passed, Now: w.now}}
}

// told is what was done, runs of the same as one.
func (w *world) told() string {
	var out []string
	for i := 0; i < len(w.said); {
		k := i
		for k < len(w.said) && w.said[k] == w.said[i] {
			k++
		}
		text := w.said[i]
		if k-i > 1 {
			text = fmt.Sprintf("%d × %s", k-i, text)
		}
		out, i = append(out, text), k
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}
