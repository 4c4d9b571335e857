// Package perfetto writes what an allocator does over time as a Chrome trace, which
// ui.perfetto.dev and chrome://tracing open: memory as a curve, steps as spans, and plans,
// stitching and failures as marks.
//
//	t, err := perfetto.Create("run.trace.json", "train.py, rank 0")
//	t.Memory(now, 0, allocated, reserved)
//	t.Span(begin, end, 0, "step 3", perfetto.Args{"requests": 3270, "hits": 3270})
//	t.Mark(now, 0, "plan 2 serves", nil)
//	t.Close()
//
// The file is a JSON array, an event a line. It is whole whenever somebody looks, also when
// its process was killed: each write brings the array's end along, and the next one writes
// over that.
package perfetto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"stalloc/internal/mem"
	"stalloc/internal/output"
)

// Args are what is shown beside an event.
type Args map[string]any

// event is one of Chrome's.
type event struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	At    float64 `json:"ts"` // microseconds since base
	Took  float64 `json:"dur,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	Scope string  `json:"s,omitempty"`
	Args  Args    `json:"args,omitempty"`
}

// baseName is the event that says when the times of a file begin: nanoseconds since 1970.
const baseName = "stalloc_base_time"

// mostBytes bounds a file: a run of weeks must not fill a disk. It is some ten million events.
const mostBytes = 1 << 30

// flushEvery is how long an event may wait to be written to the file; a mark does not.
const flushEvery = 100 * time.Millisecond

// flushAt is how many bytes wait at most.
const flushAt = 1 << 16

// Trace is a file that is being written. Its methods may be called from any goroutine. A
// failure to write ends the trace and nothing else: Close returns it, and Tell tells it. A
// nil Trace does nothing, so that callers need not ask whether there is one.
type Trace struct {
	mu      sync.Mutex
	file    *os.File
	pending []byte // that is not in the file yet
	end     int64  // of the file, where that belongs
	base    time.Time
	pid     int
	most    int64
	flushed time.Time
	err     error
	told    func(error) // nil: nobody wants to know
}

// errFull says that the file has reached its bound.
var errFull = errors.New("the trace is full")

// Create begins a file, and empties one that is there. The name is shown for the process.
func Create(path, name string) (*Trace, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err == nil {
		// its end is written over again and again
		if _, err = file.Seek(0, io.SeekStart); err != nil {
			err = fmt.Errorf("%s is no file that can be written over: %w", path,
				errors.Join(err, file.Close()))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; name another file for the trace", err)
	}
	t := &Trace{file: file, pending: []byte("["), base: time.Now(), pid: os.Getpid(),
		most: mostBytes}
	t.put(event{Name: baseName, Phase: "M",
		Args: Args{"nanoseconds": fmt.Sprint(t.base.UnixNano())}})
	t.put(event{Name: "process_name", Phase: "M", Args: Args{"name": name}})
	return t, nil
}

// Memory adds a point to a device's curve of memory.
func (t *Trace) Memory(at time.Time, device int, allocated, reserved mem.Bytes) {
	t.Counter(at, device, "memory", Args{"allocated": int64(allocated),
		"idle": int64(max(reserved-allocated, 0))})
}

// Counter adds a point to a curve; its values are drawn on top of each other.
func (t *Trace) Counter(at time.Time, device int, name string, values Args) {
	t.add(at, event{Name: fmt.Sprintf("device %d %s", device, name), Phase: "C", TID: device,
		Args: values})
}

// Span is what took time: a step, or a stretch in the driver.
func (t *Trace) Span(begin, end time.Time, device int, name string, args Args) {
	t.add(begin, event{Name: name, Phase: "X", Took: micros(end.Sub(begin)), TID: device,
		Args: args})
}

// Mark is what happened at a moment: a plan that serves from here on, memory that ran out.
func (t *Trace) Mark(at time.Time, device int, name string, args Args) {
	t.add(at, event{Name: name, Phase: "i", Scope: "t", TID: device, Args: args})
}

func (t *Trace) add(at time.Time, e event) {
	if t == nil {
		return
	}
	e.At = micros(at.Sub(t.base))
	t.put(e)
}

func (t *Trace) put(e event) {
	e.PID = t.pid
	line, err := json.Marshal(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil:
		return
	case err != nil:
		t.failed(fmt.Errorf("event %s: %w", e.Name, err))
		return
	case t.end+int64(len(t.pending)+len(line)) > t.most:
		t.failed(cmp.Or(t.flush(), errFull))
		return
	}
	if t.end+int64(len(t.pending)) > 1 {
		t.pending = append(t.pending, ',')
	}
	t.pending = append(append(t.pending, '\n'), line...)
	if now := time.Now(); e.Phase == "i" || now.Sub(t.flushed) >= flushEvery ||
		len(t.pending) >= flushAt {
		t.flushed = now
		t.failed(t.flush())
	}
}

// Tell has a function told once why the trace ended before Close, if it does, or has.
func (t *Trace) Tell(told func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = told
	t.failed(t.err)
}

// failed ends the trace where there is an error.
func (t *Trace) failed(err error) {
	if t.err = err; err != nil && t.told != nil {
		t.told(err)
	}
}

// flush writes what is pending over the end of the array, and that after it.
func (t *Trace) flush() error {
	_, err := output.Limited{File: t.file}.WriteAt(append(t.pending, "\n]\n"...), t.end)
	t.end += int64(len(t.pending))
	t.pending = t.pending[:0]
	return err
}

// Close ends the file. The error is the first that came up; what was written before it
// stays.
func (t *Trace) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := errors.Join(t.err, t.flush(), t.file.Close())
	t.file = nil
	if t.err == nil {
		t.err = os.ErrClosed
	}
	return err
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
