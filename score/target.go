package score

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// Simulator is a program that answers.
type Simulator struct {
	Name    string
	Command []string      // and arguments
	Timeout time.Duration // for an answer
	// Stitched says that two addresses may have the same memory, so that live blocks may touch
	// more pages than there are.
	Stitched bool
	// Counted says that it has told retries and the driver's time, in every answer so far.
	Counted bool
}

// DefaultTimeout leaves time for simulators that search long for a place.
const DefaultTimeout = 30 * time.Second

// New checks a command line.
func New(name string, command []string, timeout time.Duration) (*Simulator, error) {
	if len(command) == 0 {
		return nil, errors.New("no simulator is named: give its command line after --")
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("a time limit of %v: give one above zero", timeout)
	}
	return &Simulator{Name: name, Command: command, Timeout: timeout, Counted: true}, nil
}

// Allocator is the simulator as one that recordings can be replayed through: each run is a
// process of its own.
func (s *Simulator) Allocator() replay.Allocator {
	return replay.Allocator{Name: s.Name, New: func(ctx context.Context, tr *trace.Trace,
		c replay.Config) (replay.Target, error) {
		p, err := start(ctx, s.Command, s.Timeout)
		if err != nil {
			return nil, err
		}
		t := &target{simulator: s, p: p, tr: tr, capacity: c.Capacity, blocks: newBlocks(),
			freed: make(map[int64]bool), ends: ends(tr)}
		t.tell([]byte("c," + strconv.FormatInt(int64(c.Capacity), 10)))
		return t, nil
	}}
}

// ends are the times at which frees complete.
func ends(tr *trace.Trace) map[int64]int64 {
	all := make(map[int64]int64)
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == trace.FreeCompleted {
			all[e.ID] = e.Micros
		}
	}
	return all
}

// Error says which rule a simulator has broken, and where.
type Error struct {
	Event int    // its number in the recording, from 0; -1 before the first
	Told  string // the line that it was told last
	Line  int    // of its output, from 1; 0 before the first
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("event %d, %q, line %d of the simulator's output: %v", e.Event, e.Told, e.Line,
		e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// target is a simulator under replay.
type target struct {
	simulator *Simulator
	p         *process
	tr        *trace.Trace
	capacity  mem.Bytes
	blocks    *blocks
	freed     map[int64]bool // asked for, and not done
	event     int            // number of the one that it was told last, plus one
	told      []byte
	now       answer
	full      bool
	fault     error // the first rule that it has broken

	ends           map[int64]int64 // when frees complete, in recorded µs
	micros, waited int64
}

// answer is what every answer says at its end.
type answer struct {
	reserved mem.Bytes
	retries  int64
	micros   float64
}

func (t *target) note(err error) {
	if err != nil && t.fault == nil {
		t.fault = &Error{t.event - 1, string(t.told), t.p.lines, err}
	}
}

func (t *target) tell(line []byte) {
	if t.told = line; t.fault == nil {
		t.note(t.p.tell(line))
	}
}

// At tells the event's line.
func (t *target) At(event int, micros int64) {
	t.event, t.micros = event+1, micros
	line, err := t.tr.Events[event].AppendText(t.told[:0])
	t.note(err)
	t.tell(line)
}

// answer reads an answer: an address if that was asked for, and the figures after it.
func (t *target) answer(address bool) (at mem.Addr) {
	if t.fault != nil {
		return 0
	}
	line, err := t.p.ask()
	for address && err == nil && strings.HasPrefix(line, "w,") {
		if err = t.wait(line); err == nil {
			line, err = t.p.ask()
		}
	}
	if err != nil {
		t.note(err)
		return 0
	}
	if address && line == "full" {
		t.full = true
		return 0
	}
	at, now, counted, err := parse(line, address)
	if err != nil {
		t.note(err)
		return 0
	}
	t.simulator.Counted = t.simulator.Counted && counted
	switch {
	case now.reserved < t.now.reserved || now.retries < t.now.retries || now.micros < t.now.micros:
		err = fmt.Errorf("expected figures of the run so far, which do not fall, got %q", line)
	case now.reserved > t.capacity:
		err = fmt.Errorf("%d bytes are reserved on a device of %d: answer full where it is", now.reserved, t.capacity)
	}
	t.note(err)
	t.now = now
	return at
}

// wait ends a block whose free was asked for.
func (t *target) wait(line string) error {
	number, err := strconv.ParseUint(line[len("w,"):], 10, 63)
	id := int64(number)
	if err != nil || !t.freed[id] {
		return fmt.Errorf("expected w,<id> of a block whose free was asked for and is not done, got %.80q", line)
	}
	delete(t.freed, id)
	t.blocks.remove(id)
	if end, known := t.ends[id]; known {
		t.waited += max(end-t.micros, 0)
	}
	return nil
}

// parse reads an answer's numbers: digits alone, and for µs a point among them.
func parse(line string, address bool) (at mem.Addr, now answer, counted bool, err error) {
	want := "<reserved>"
	if address {
		want = "full, or <address>,<reserved>"
	}
	wrong := fmt.Errorf("expected %s, or the same and ,<retries>,<µs>, in decimal digits, got %.80q",
		want, line)
	fields := strings.Split(line, ",")
	if address {
		n, err := strconv.ParseUint(fields[0], 10, 63)
		if err != nil {
			return 0, now, false, wrong
		}
		at, fields = mem.Addr(n), fields[1:]
	}
	if len(fields) != 1 && len(fields) != 3 {
		return 0, now, false, wrong
	}
	reserved, err := strconv.ParseUint(fields[0], 10, 62)
	if now.reserved = mem.Bytes(reserved); err != nil {
		return 0, now, false, wrong
	}
	if len(fields) == 1 {
		return at, now, false, nil
	}
	retries, err := strconv.ParseUint(fields[1], 10, 62)
	micros, bad := strconv.ParseFloat(fields[2], 64)
	others := strings.Trim(fields[2], "0123456789.") // signs, exponents, names, other bases
	if err != nil || bad != nil || others != "" || micros >= 1e18 {
		return 0, now, false, wrong
	}
	now.retries, now.micros = int64(retries), micros
	return at, now, true, nil
}

func (t *target) Alloc(id int64, size mem.Bytes, _ mem.StreamID) error {
	at := t.answer(true)
	if t.fault == nil && !t.full && size > 0 {
		t.note(t.blocks.add(id, at, size))
		t.note(t.covered())
	}
	if t.fault == nil && t.full {
		return driver.ErrOutOfMemory
	}
	return t.fault
}

// covered returns an error if more memory is in use than is reserved.
func (t *target) covered() error {
	if touched := t.blocks.touched(); !t.simulator.Stitched && touched > t.now.reserved {
		return fmt.Errorf("%d bytes are reserved, and live blocks touch pages of 2 MiB of %d: if addresses share memory, say --stitched",
			t.now.reserved, touched)
	}
	if t.blocks.bytes > t.now.reserved {
		return fmt.Errorf("%d bytes are reserved, and live blocks have %d", t.now.reserved,
			t.blocks.bytes)
	}
	return nil
}

func (t *target) RecordStream(int64, mem.StreamID) {}
func (t *target) EmptyCache()                      {}

func (t *target) FreeRequested(id int64, _ bool) {
	t.freed[id] = true
	t.blocks.free(id)
}

func (t *target) FreeCompleted(id int64) {
	delete(t.freed, id)
	t.blocks.remove(id)
}

func (t *target) Step() replay.Done {
	t.answer(false)
	return replay.Done{TimeUS: t.now.micros, Retries: t.now.retries}
}

// Finish ends the simulator: with q if it has served the whole run, else by killing it.
func (t *target) Finish() (replay.Counts, error) {
	if t.fault == nil && t.event == len(t.tr.Events) && !t.full {
		t.tell([]byte("q"))
		if t.answer(false); t.fault == nil {
			t.note(t.p.end())
		}
	}
	t.p.abandon()
	return replay.Counts{PeakReserved: t.now.reserved, DriverTimeUS: t.now.micros,
		Retries: t.now.retries, Waited: t.waited}, t.fault
}
