package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
)

// object is a Python dictionary: keys and values in turn.
type object []any

// pickled pickles plain data in protocol 4, without memo and frames.
func pickled(v any) []byte { return append(appendPickle([]byte{opProto, 4}, v), opStop) }

func appendPickle(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, opNone)
	case bool:
		return append(b, opNewTrue)
	case int:
		return binary.LittleEndian.AppendUint64(append(b, opLong1, 8), uint64(v))
	case string:
		return append(append(b, opShortBinUnicode, byte(len(v))), v...)
	case []any:
		b = append(b, opEmptyList, opMark)
		for _, item := range v {
			b = appendPickle(b, item)
		}
		return append(b, opAppends)
	case object:
		b = append(b, opEmptyDict, opMark)
		for _, item := range v {
			b = appendPickle(b, item)
		}
		return append(b, opSetItems)
	}
	panic(fmt.Sprintf("cannot pickle %T", v))
}

func entry(what string, addr, size, stream, time int) object {
	return object{"action", what, "addr", addr, "size", size, "stream", stream, "time_us", time}
}

func segment(device, addr, stream int, blocks ...any) object {
	return object{"device", device, "address", addr, "stream", stream, "blocks", blocks}
}

// side is a stream as a snapshot names it.
const side = 0x7f0012345678

// snapshotCases: what segments and one device's trace stand for.
var snapshotCases = []struct {
	name     string
	segments []any
	trace    []any
	want     []Event
	skipped  Skipped
}{
	{
		name: "addresses come again",
		trace: []any{
			entry("alloc", 4096, 10, 0, 100), entry("free_requested", 4096, 10, 0,
				101), entry("free_completed", 4096, 10, 0, 102),
			entry("alloc", 4096, 20, 0, 103),
		},
		want: []Event{
			{Kind: Alloc, ID: 0, Size: 10}, {Kind: FreeRequested, ID: 0,
				Micros: 1}, {Kind: FreeCompleted, ID: 0, Micros: 2},
			{Kind: Alloc, ID: 1, Size: 20, Micros: 3},
		},
	}, {
		name: "streams by first appearance",
		trace: []any{entry("alloc", 1, 1, side, 0), entry("alloc", 2, 1, 2, 0),
			entry("alloc", 3, 1, 0, 0), entry("alloc", 4, 1, side, 0)},
		want: []Event{
			{Kind: Alloc, ID: 0, Size: 1, Stream: 1}, {Kind: Alloc, ID: 1, Size: 1, Stream: 2},
			{Kind: Alloc, ID: 2, Size: 1}, {Kind: Alloc, ID: 3, Size: 1, Stream: 1},
		},
	}, {
		name: "frees without their alloc",
		trace: []any{
			entry("free_requested", 1, 1, 0, 5), entry("free_completed", 1, 1, 0,
				6), entry("free_completed", 2, 1, 0, 7),
			entry("alloc", 1, 1, 0, 4), entry("free_requested", 1, 1, 0, 8), entry("free_requested",
				1, 1, 0, 9),
		},
		want:    []Event{{Kind: Alloc, Size: 1}, {Kind: FreeRequested, Micros: 3}},
		skipped: Skipped{Frees: 4},
	}, {
		name:  "a free whose request was lost",
		trace: []any{entry("alloc", 1, 1, 0, 5), entry("free_completed", 1, 1, 0, 6)},
		want: []Event{{Kind: Alloc, Size: 1}, {Kind: FreeRequested, Micros: 1},
			{Kind: FreeCompleted, Micros: 1}},
	}, {
		name:  "an alloc at a live address",
		trace: []any{entry("alloc", 1, 1, 0, 5), entry("alloc", 1, 2, 0, 6)},
		want: []Event{{Kind: Alloc, Size: 1}, {Kind: FreeRequested, Micros: 1},
			{Kind: FreeCompleted, Micros: 1}, {Kind: Alloc, ID: 1, Size: 2, Micros: 1}},
		skipped: Skipped{Lost: 1},
	}, {
		name: "other actions",
		trace: []any{
			entry("segment_map", 1, 1, 0, 5), object{"action", "oom"}, object{"action",
				"something new", "addr", "here"},
			object{"action", "alloc", "addr", 9, "size", 3},
		},
		want: []Event{{Kind: Alloc, Size: 3}},
	}, {
		name: "blocks older than the ring",
		segments: []any{
			segment(0, 4096, 0,
				object{"size", 512, "state", "active_allocated"},
				object{"size", 512, "state", "inactive"},
				object{"size", 512, "requested_size", 100, "state", "active_pending_free"}),
			segment(1, 4096, 0, object{"size", 512, "state", "active_allocated"}),
			segment(0, 8192, side, object{"address", 9000, "size", 512, "requested_size", 7,
				"state", "active_awaiting_free"}),
		},
		trace: []any{
			entry("free_requested", 4096, 512, 0, 50),
			entry("alloc", 9000, 7, side, 51),
		},
		want: []Event{
			{Kind: Mark, Mark: "setup"}, {Kind: Alloc, ID: 0, Size: 512}, {Kind: Alloc, ID: 1,
				Size: 100},
			{Kind: FreeRequested, ID: 0}, {Kind: Alloc, ID: 2, Size: 7, Stream: 1, Micros: 1},
		},
	}, {
		name:     "a block that appeared while nothing was recorded",
		segments: []any{segment(0, 1, 0, object{"size", 512, "state", "active_allocated"})},
		trace: []any{
			entry("alloc", 1, 512, 0, 50), entry("free_requested", 1, 512, 0,
				50), entry("free_completed", 1, 512, 0, 50),
		},
		want:    []Event{{Kind: Alloc, Size: 512}, {Kind: FreeRequested}, {Kind: FreeCompleted}},
		skipped: Skipped{Blocks: 1},
	},
}

func TestSnapshotEvents(t *testing.T) {
	for _, c := range snapshotCases {
		r, events := readSnapshotOf(t, c.segments, []any{c.trace})
		if i := firstDifference(events, c.want); i >= 0 || r.Skipped() != c.skipped {
			t.Errorf("%s: event %d differs, skipped %+v:\n got %v\nwant %v", c.name, i, r.Skipped(),
				events, c.want)
		}
	}
}

func readSnapshotOf(t *testing.T, segments, traces []any, opts ...Option) (*Reader, []Event) {
	t.Helper()
	path := t.TempDir() + "/snap.pickle"
	writeFile(t, path, pickled(object{"segments", segments, "device_traces", traces}))
	r, err := Open(path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var events []Event
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		events = append(events, e)
	}
	return r, events
}

func TestSnapshotDevice(t *testing.T) {
	segments := []any{segment(3, 4096, 0, object{"size", 512, "state", "active_allocated"})}
	traces := []any{[]any{}, []any{entry("alloc", 1, 11, 0, 0)}, []any{entry("alloc", 1, 22, 0, 0)}}
	for _, c := range []struct {
		traces []any
		opts   []Option
		header string
		size   int64
	}{
		{traces, nil, "workload snap snapshot device 1", 11},
		{traces, []Option{Device(2)}, "workload snap snapshot device 2", 22},
		{traces, []Option{Device(3)}, "workload snap snapshot device 3", 512},
		{traces[:1], nil, "workload snap snapshot device 3", 512},
	} {
		r, events := readSnapshotOf(t, segments, c.traces, c.opts...)
		if last := events[len(events)-1]; r.Header() != c.header || int64(last.Size) != c.size {
			t.Errorf("%q with %v, want %q with a request of %d", r.Header(), events, c.header,
				c.size)
		}
	}
}

func TestSnapshotErrors(t *testing.T) {
	traces := func(entries ...any) object { return object{"device_traces", []any{entries}} }
	segments := func(of ...any) object { return object{"segments", of} }
	const remedy = "; call torch.cuda.memory._record_memory_history() before the run"
	for _, c := range []struct {
		in   any
		opts []Option
		want string
	}{
		{[]any{}, nil, `t: want a snapshot: a dictionary with "segments" and "device_traces", got a list`},
		{object{}, nil, "t: want a snapshot with allocations, got none" + remedy},
		{object{"device_traces", []any{[]any{}}}, nil,
			"t: want a snapshot with allocations, got none" + remedy},
		{traces(entry("alloc", 1, 1, 0, 0)), []Option{Device(7)},
			"t: want a snapshot with allocations of device 7, got those of [0]; choose one of these devices"},
		{object{"device_traces", 5}, nil,
			`t: want a list "device_traces" in the snapshot, got an integer`},
		{object{"device_traces", []any{nil}}, nil, "t: want a list as trace of device 0, got None"},
		{traces(true), nil, "t: want a dictionary as event 0 of device 0, got a bool"},
		{traces(object{}), nil, `t: want "action" in event 0 of device 0, got none`},
		{traces(object{"action", 3}), nil,
			`t: want a string "action" in event 0 of device 0, got an integer`},
		{traces(object{"action", "alloc"}), nil,
			`t: want an integer "addr" of at least 0 in event 0 of device 0, got none`},
		{traces(object{"action", "alloc", "addr", "x"}), nil,
			`t: want an integer "addr" of at least 0 in event 0 of device 0, got a string`},
		{traces(object{"action", "alloc", "addr", -5}), nil,
			`t: want an integer "addr" of at least 0 in event 0 of device 0, got -5`},
		{traces(object{"action", "alloc", "addr", 1}), nil,
			`t: want an integer "size" of at least 0 in event 0 of device 0, got none`},
		{traces(entry("alloc", 1, 1, -1, 0)), nil,
			`t: want an integer "stream" of at least 0 in event 0 of device 0, got -1`},
		{traces(object{"action", "oom", "time_us", nil}), nil,
			`t: want an integer "time_us" of at least 0 in event 0 of device 0, got None`},
		{traces(entry("alloc", 1, math.MaxInt64, 0, 0)), nil,
			"t: want a request of at most 281474976710656 bytes, got 9223372036854775807"},
		{segments(4), nil, "t: want a dictionary as segment 0, got an integer"},
		{segments(object{"address", 1}), nil, `t: want a list "blocks" in segment 0, got none`},
		{segments(object{"blocks", []any{}}), nil,
			`t: want an integer "address" of at least 0 in segment 0, got none`},
		{segments(segment(0, 1, 0, nil)), nil,
			"t: want a dictionary as block 0 of segment 0, got None"},
		{segments(segment(0, 1, 0, object{})), nil,
			`t: want an integer "size" of at least 0 in block 0 of segment 0, got none`},
		{segments(segment(0, 1, 0, object{"size", 1})), nil,
			`t: want a string "state" in block 0 of segment 0, got none`},
		{segments(segment(0, 1, 0, object{"size", 1, "state", "new", "address", nil})), nil,
			`t: want an integer "address" of at least 0 in block 0 of segment 0, got None`},
		{segments(segment(0, 1, 0, object{"size", math.MaxInt64, "state", "new"})), nil,
			"t: want a possible address and size in block 0 of segment 0, got 1 and 9223372036854775807"},
	} {
		_, err := readAll(pickled(c.in), "t", c.opts...)
		var format *FormatError
		if !errors.As(err, &format) || err.Error() != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// TestSnapshotTimeRunsBack: a clock set back gives time 0, not a negative one.
func TestSnapshotTimeRunsBack(t *testing.T) {
	_, events := readSnapshotOf(t, nil,
		[]any{[]any{entry("alloc", 1, 1, 0, 500), entry("alloc", 2, 1, 0, 400)}})
	if len(events) != 2 || events[1].Micros != 0 {
		t.Errorf("events %v", events)
	}
}
