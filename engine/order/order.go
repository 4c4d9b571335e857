package order

import (
	"math"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// Policy decides where blocks lie and when the driver is called.
type Policy interface {
	// Step takes an event and appends the operations now due. A batch that waits for the device
	// begins with OpSync.
	Step(engine.Event, []engine.Op) []engine.Op
	Lookup(mem.Addr) (engine.Block, bool)
	Regions() map[uint64]bool // that have memory
	Reserved() mem.Bytes      // the sizes of all handles
}

// Config switches mechanisms off.
type Config struct {
	NoWait bool // no request waits for other streams
	NoLend bool // no stream lends memory
	// NoPending: the policy never says that it would rather have waited, so fences are polled with
	// each event, and no stream is marked.
	NoPending bool
}

// Engine is a policy with the order of streams' work.
type Engine struct {
	policy   Policy
	cfg      Config
	fences   fences
	rule     rule
	waits    map[uint64]request // requests that come again
	lastPoll engine.Nanos

	act   action
	batch []engine.Op // of the policy
	out   []engine.Op // of this step
	from  []int       // by operation in out: its index in batch, -1: it is not the policy's
}

// action is the runner's event that is under way.
type action struct {
	request
	ev      engine.Event
	now     engine.Nanos
	stage   stage
	polling bool
	polls   int          // events that may be asked about yet
	held    int          // queues whose oldest event has not passed, in a row
	delay   engine.Nanos // of the next query
	means   engine.Means // of the first attempt
	asked   int          // lenders before this one

	syncing  bool      // the batch waits for the device
	unsynced bool      // such a wait was refused, or failed
	retried  bool      // after idle memory of regions was given back
	before   mem.Bytes // reserved at the first attempt
	began    mem.Bytes // and at this one
	refusal  engine.Op // of the last attempt
}

// request is what is kept of a request that comes again.
type request struct {
	wait    wait
	lenders []mem.StreamID // streams that lend memory for it
	last    bool           // it waits for them, or is refused
}

// New returns a policy that waits.
func New(policy Policy, cfg Config) *Engine {
	return &Engine{policy: policy, cfg: cfg, waits: map[uint64]request{},
		fences: fences{late: map[mem.StreamID][]waiter{}}}
}

// Step takes one event of the runner and appends the operations now due to out, to be done in
// order. The last one tells what comes next: OpResume and OpQuery want an answer, OpGrant, OpRefuse
// and OpWait answer a request, and otherwise the event is settled.
func (e *Engine) Step(ev engine.Event, out []engine.Op) []engine.Op {
	switch ev.Kind {
	case engine.EvUnrecorded: // perhaps before the answer to a batch
		e.fences.unrecord(ev.Fence)
		return out
	case engine.EvSynced:
		e.fences.synced()
		return out
	case engine.EvFailed:
		failed := -1
		if ev.Failed >= 0 && ev.Failed < len(e.from) {
			failed = e.from[ev.Failed]
		}
		ev.Failed = failed
	}
	e.out, e.from = out, e.from[:0]
	switch ev.Kind {
	case engine.EvResume, engine.EvFailed:
		e.proceed(ev)
	case engine.EvAnswer:
		e.answered(ev)
	default:
		e.begin(ev)
	}
	out, e.out = e.out, nil
	return out
}

// Drop forgets a request that will not come again.
func (e *Engine) Drop(req uint64) { delete(e.waits, req) }

// Outstanding is what the driver must be asked about before memory comes free.
type Outstanding struct {
	All    int // fences
	Urgent int // of them, those that memory comes free with
	Late   int // fences for which no event is recorded, all of them
	Looks  int // events of the runner since the last one became late
}

// Outstanding returns how much is.
func (e *Engine) Outstanding() Outstanding {
	f := &e.fences
	return Outstanding{f.n + f.lateN, f.urgent, f.lateN, f.looks}
}

// Missing returns how many fences memory waits for that no event is recorded for.
func (e *Engine) Missing() int { return e.fences.missing() }

// Waits returns what was waited so far.
func (e *Engine) Waits() Waits { return e.rule.counts }

// put appends an operation: of the policy's batch at an index, or -1.
func (e *Engine) put(op engine.Op, from int) {
	e.out, e.from = append(e.out, op), append(e.from, from)
}

// name records an event on a stream that something is late on: the program has just named it.
func (e *Engine) name(id mem.StreamID) {
	if len(e.fences.late[id]) > 0 {
		e.record(id, false, -1)
	}
}

func (e *Engine) record(id mem.StreamID, must bool, from int) {
	number := e.fences.record(id, e.act.now)
	e.put(engine.Op{Kind: engine.OpRecordEvent, Stream: id, Fence: number, Must: must}, from)
}

// mark records an event that nothing waits for behind a request, while memory waits for other
// streams.
func (e *Engine) mark() {
	a := &e.act
	if !e.cfg.NoPending && e.fences.n > 0 && !a.ev.Capturing && e.rule.marks(a.now) {
		e.rule.marked = a.now
		e.record(a.ev.Stream, false, -1)
	}
}

const (
	// pollBatch bounds the events that the driver is asked about where no request needs memory:
	// each question costs a fifth of a microsecond.
	pollBatch = 4
	// pollShare: where many are outstanding a 16th of them is asked about. A program that marks no
	// steps would have ever more, and about what has passed nobody asks twice.
	pollShare = 16
)

// begin takes an event that the runner was not asked for. A few fences are polled first.
func (e *Engine) begin(ev engine.Event) {
	e.act = action{ev: ev, now: ev.Now, stage: stageBegun, request: e.waits[ev.Req]}
	delete(e.waits, ev.Req)
	f := &e.fences
	due := (ev.Now-e.lastPoll >= fewInterval || e.cfg.NoPending) && len(f.queues) > 0
	if due || len(f.passed) > 0 {
		e.lastPoll = ev.Now
		e.poll(max(pollBatch, f.n/pollShare))
	}
	f.looks++
	e.advance()
}

// all polls every event until the oldest of each stream has not passed.
const all = math.MaxInt

func (e *Engine) poll(most int) {
	over := e.fences.passed
	e.fences.passed = nil
	for _, w := range over {
		e.pass(w)
	}
	e.act.polling, e.act.polls, e.act.held = true, most, 0
}

// query asks about the next event; false: that is enough.
func (e *Engine) query() bool {
	a := &e.act
	if a.polls <= 0 || a.held >= len(e.fences.queues) {
		if e.fences.mark > 0 {
			e.rule.lag, e.fences.mark = a.now-e.fences.mark, 0
		}
		a.polling, a.delay = false, 0
		return false
	}
	a.polls--
	e.put(engine.Op{Kind: engine.OpQuery, Fence: e.fences.ask(), Delay: a.delay}, -1)
	a.delay = 0
	return true
}

func (e *Engine) answered(ev engine.Event) {
	e.act.now = ev.Now
	gone, over := e.fences.answer(ev.Fence, ev.Passed, ev.Code != 0)
	if !gone {
		e.act.held++
	}
	for _, w := range over {
		e.pass(w)
	}
	e.advance()
}

// pass tells the policy that a fence has passed, and the runner where a late free ends with it.
func (e *Engine) pass(w waiter) {
	e.batch = e.policy.Step(engine.Event{Kind: engine.EvFence, Fence: w.fence}, e.batch[:0])
	for _, op := range e.batch {
		if op.Kind != engine.OpUnknown { // passed by a wait for the device meanwhile
			panic("a passed fence needs no operation")
		}
	}
	b := w.freed
	if b.Size == 0 || b.Pool != 0 {
		return
	}
	if now, still := e.policy.Lookup(b.Addr); !still || !now.Pending { // no other fence is left
		e.put(engine.Op{Kind: engine.OpFreed, Addr: b.Addr, Size: b.Size, Stream: b.Stream}, -1)
	}
}
