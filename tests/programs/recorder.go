// Package programs makes programs up: at random from a seed, and as public reports describe them.
// Nothing in it was chosen by what an allocator makes of it.
package programs

import (
	"strconv"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// A recorder writes what a program does, as a recording.
type recorder struct {
	name       string
	events     []trace.Event
	next       int64 // block
	micros     int64
	size       map[int64]mem.Bytes // of live blocks
	load, peak mem.Bytes
	steps      int
}

func newRecorder(name string) *recorder {
	return &recorder{name: name, size: map[int64]mem.Bytes{}}
}

// Microseconds between two events, and more for each MiB of a new block: about the medians of the
// recordings in tests/traces.
const (
	perEvent = 60
	perMiB   = 3
)

func (t *recorder) put(e trace.Event) {
	if e.Kind != trace.Mark {
		t.micros += perEvent + perMiB*int64(e.Size/mem.MiB)
		e.Micros = t.micros
	}
	t.events = append(t.events, e)
}

func (t *recorder) step() {
	t.put(trace.Event{Kind: trace.Mark, Mark: "step " + strconv.Itoa(t.steps)})
	t.steps++
}

func (t *recorder) alloc(size mem.Bytes, stream mem.StreamID) int64 {
	id := t.next
	t.next++
	t.size[id] = size
	t.load += mem.Round(size)
	t.peak = max(t.peak, t.load)
	t.put(trace.Event{Kind: trace.Alloc, ID: id, Size: size, Stream: stream})
	return id
}

// request asks for a block's end, which complete brings.
func (t *recorder) request(id int64) {
	t.load -= mem.Round(t.size[id])
	delete(t.size, id)
	t.put(trace.Event{Kind: trace.FreeRequested, ID: id})
}

func (t *recorder) complete(id int64) { t.put(trace.Event{Kind: trace.FreeCompleted, ID: id}) }

func (t *recorder) free(id int64) {
	t.request(id)
	t.complete(id)
}

func (t *recorder) record(id int64, stream mem.StreamID) {
	t.put(trace.Event{Kind: trace.RecordStream, ID: id, Stream: stream})
}

func (t *recorder) end() *trace.Trace {
	t.put(trace.Event{Kind: trace.Mark, Mark: "end"})
	return &trace.Trace{Name: t.name, Header: "workload " + t.name, Events: t.events, Device: -1}
}
