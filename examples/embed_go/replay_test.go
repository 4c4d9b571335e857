//go:build cgo

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"stalloc"
	"stalloc/trace"
)

// host is device memory in a slice.
type host []byte

func (h host) Write(to stalloc.Addr, from []byte) error { copy(h[to:], from); return nil }
func (h host) Read(to []byte, from stalloc.Addr) error  { copy(to, h[from:]); return nil }

// bump gives out one address after the other, from threads that run one at a
// time; stride says how far they are apart.
type bump struct {
	stride  stalloc.Addr
	next    stalloc.Addr
	live    map[stalloc.Addr]bool
	records int
	steps   int
}

func (b *bump) Malloc(stalloc.Stream, stalloc.Bytes) (stalloc.Addr, error) {
	b.next += b.stride
	b.live[b.next] = true
	return b.next, nil
}

func (b *bump) Free(addr stalloc.Addr) error {
	if !b.live[addr] {
		return stalloc.ErrUnknown
	}
	delete(b.live, addr)
	return nil
}

func (b *bump) Record(stalloc.Addr, stalloc.Stream) error { b.records++; return nil }
func (b *bump) Step() error                               { b.steps++; return nil }

// recorded is set-up and two steps: every block is freed one request later, the
// last one never.
func recorded() []trace.Event {
	var events []trace.Event
	for id := range int64(300) {
		if id%100 == 0 {
			events = append(events,
				trace.Event{Kind: trace.Mark, Mark: fmt.Sprintf("step %d", id/100)})
		}
		events = append(events, trace.Event{Kind: trace.Alloc, ID: id, Size: 1000})
		if id > 0 {
			events = append(events, trace.Event{Kind: trace.FreeRequested, ID: id - 1},
				trace.Event{Kind: trace.FreeCompleted, ID: id - 1})
		}
	}
	return append(events, trace.Event{Kind: trace.Mark, Mark: "end"})
}

// TestReplay: blocks that lie apart are found whole, blocks that overlap by one
// byte are not.
func TestReplay(t *testing.T) {
	for stride, want := range map[stalloc.Addr]string{
		1000: "",
		999:  "its memory was given to somebody else",
		8:    "thread 0, block 0: byte 8 of 1000",
	} {
		b := &bump{stride: stride, live: map[stalloc.Addr]bool{}}
		r := &replay{memory: b, bytes: make(host, 1<<20), events: recorded()}
		if err := r.addThreads(1, 1, nil); err != nil {
			t.Fatal(err)
		}
		err := r.run()
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("blocks %d bytes apart: %v, want %q", stride, err, want)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		}
		if r.threads[0].checked != 300*1000 {
			t.Errorf("%v were checked", r.threads[0].checked)
		}
		if live := slices.Collect(maps.Keys(b.live)); len(live) > 0 || b.steps != 4 ||
			b.records != 3 {
			t.Errorf("%d blocks left, %d steps, %d blocks lent, want 0, 4 and 3", len(live),
				b.steps, b.records)
		}
	}
}

// TestPattern: no two places of a block look alike, nor do two blocks.
func TestPattern(t *testing.T) {
	seen := map[string]string{}
	for tag := range uint64(8) {
		for at := stalloc.Bytes(0); at < 1<<21; at += 1 << 12 {
			var bytes [16]byte
			pattern(bytes[:], tag, at)
			here := fmt.Sprintf("block %d at %d", tag, at)
			if before, ok := seen[string(bytes[:8])]; ok {
				t.Fatalf("%s looks like %s", here, before)
			}
			seen[string(bytes[:8])] = here
		}
	}
}

// TestRepeats: the last step is repeated, blocks that it keeps are freed in their next
// turn, and some turns are checked.
func TestRepeats(t *testing.T) {
	b := &bump{stride: 1000, live: map[stalloc.Addr]bool{}}
	r := &replay{memory: b, bytes: make(host, 8<<20), events: recorded(), repeats: look}
	if err := r.addThreads(1, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if b.steps != 4+look || len(b.live) != 0 || int(b.next) != 1000*(300+100*look) ||
		r.threads[0].checked != 400*1000 {
		t.Errorf("%d steps, %d blocks left, %d bytes handed out, %v checked", b.steps, len(b.live),
			b.next, r.threads[0].checked)
	}
}
