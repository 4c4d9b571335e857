package trace

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func frame(file string, line int, name string) object {
	return object{"filename", file, "line", line, "name", name}
}

// framed is an entry with a stack.
func framed(e object, frames ...any) object { return append(e, "frames", frames) }

// mustRead reads a trace whole.
func mustRead(t *testing.T, data []byte, opts ...Option) *Trace {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data), "t", opts...)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestStacks(t *testing.T) {
	long := strings.Repeat("x", 200) + ".py" // no word is as long, and many paths are
	input := pickled(object{
		"segments", []any{
			segment(0, 1<<20, 0, framed(object{"size", 512, "address", 1 << 20, "state",
				"active_allocated"}, frame("old.py", 1, "load"))),
		},
		"device_traces", []any{[]any{
			framed(entry("alloc", 4096, 10, 0, 100), frame("model.py", 7, "forward"),
				frame(long, 9, "alloc")),
			framed(entry("alloc", 8192, 10, 0, 101), frame("model.py", 7, "forward"),
				frame(long, 9, "alloc")),
			framed(entry("free_completed", 8192, 10, 0, 102), frame("free.py", 3, "x")),
			entry("alloc", 8192, 20, 0, 103),
			framed(entry("alloc", 16384, 20, 0, 104)),
			framed(entry("alloc", 32768, 20, 0, 105), object{"filename", 5, "line", "six"}),
		}},
	})
	with, without := mustRead(t, input, Frames()), mustRead(t, input)
	if !slices.Equal(with.Events, without.Events) {
		t.Errorf("stacks change the events: %v, without %v", with.Events, without.Events)
	}
	if without.Stacks != nil {
		t.Error("stacks were read though nobody asked")
	}
	want := []string{"old.py:1 load", "model.py:7 forward\n" + long + ":9 alloc", "? ?"}
	if got := with.Stacks.Texts(); !slices.Equal(got, want) {
		t.Fatalf("stacks %q, want %q", got, want)
	}
	for id, stack := range []int{0, 1, 1, -1, -1, 2, -1} {
		if got := with.Stacks.Of(int64(id)); got != stack {
			t.Errorf("block %d has stack %d, want %d", id, got, stack)
		}
	}
	if (*Stacks)(nil).Of(0) != -1 {
		t.Error("a block without stacks has one")
	}
}

// TestStacksAreBounded: texts count towards what a snapshot may take.
func TestStacksAreBounded(t *testing.T) {
	var events []any
	for i := range 200 {
		events = append(events, framed(entry("alloc", i+1, 1, 0, 0),
			frame(strings.Repeat(string(rune('a'+i%26)), 100+i%100)+".py", i, "f")))
	}
	input := pickled(object{"device_traces", []any{events}})
	tight := func(o *options) { o.cells = 4000 }
	if _, err := NewReader(bytes.NewReader(input), "s", tight); err != nil {
		t.Fatalf("without stacks: %v", err)
	}
	if _, err := NewReader(bytes.NewReader(input), "s", tight, Frames()); err == nil {
		t.Error("stacks of any size are kept")
	}
}

// TestDeepStacks: a few names make long texts where they are named often.
func TestDeepStacks(t *testing.T) {
	deep := make([]any, 3*maxFrames)
	for i := range deep {
		deep[i] = frame("deep.py", i, "f")
	}
	input := pickled(object{"device_traces",
		[]any{[]any{framed(entry("alloc", 1, 1, 0, 0), deep...)}}})
	tr := mustRead(t, input, Frames())
	if n := strings.Count(tr.Stacks.Texts()[0], "\n") + 1; n != maxFrames {
		t.Errorf("a stack of %d frames is kept, want %d", n, maxFrames)
	}
}

func TestTextsBeyondTheBoundAreForgotten(t *testing.T) {
	body := binaryString(strings.Repeat("y", maxText+1))
	input := append([]byte{opProto, 4, opEmptyDict, opMark}, binaryString("segments")...)
	input = append(append(append(input, body...), opSetItems), opStop)
	if _, err := NewReader(bytes.NewReader(input), "s", Frames()); err == nil ||
		!strings.Contains(err.Error(), "segments") {
		t.Errorf("want an error about the segments, got %v", err)
	}
}

func binaryString(s string) []byte {
	n := len(s)
	return append([]byte{opBinUnicode, byte(n), byte(n >> 8), byte(n >> 16), 0}, s...)
}

// TestTextStacks: our own format has stacks, too, and the events are the same without them.
func TestTextStacks(t *testing.T) {
	const text = header +
		"a,0,1,0,0\nk,0,,train.py:9 step\nk,1,0,model.py:4 forward, once\na,1,2,0,1,1\nr,1,2\nf,1,3\nk,2,0,loss.py:1 loss\na,2,3,0,4,2\n" +
		"a,3,3,0,4,0\na,4,3,0,4,1\na,9000000000000,1,0,5,1\n"
	plain, framed := mustRead(t, []byte(text)), mustRead(t, []byte(text), Frames())
	if i := firstDifference(plain.Events, framed.Events); i >= 0 || plain.Stacks != nil {
		t.Fatalf("event %d differs when stacks are read", i)
	}
	want := []string{"model.py:4 forward, once\ntrain.py:9 step", "loss.py:1 loss\ntrain.py:9 step",
		"train.py:9 step"}
	if !slices.Equal(framed.Stacks.Texts(), want) {
		t.Errorf("%q", framed.Stacks.Texts())
	}
	for id, stack := range map[int64]int{0: -1, 1: 0, 2: 1, 3: 2, 4: 0, 9000000000000: -1} {
		if got := framed.Stacks.Of(id); got != stack {
			t.Errorf("block %d has stack %d, want %d", id, got, stack)
		}
	}
}
