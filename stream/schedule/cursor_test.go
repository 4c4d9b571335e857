package schedule

import (
	"fmt"
	"slices"
	"testing"
)

func entries(sizes ...uint64) []Entry {
	list := make([]Entry, len(sizes))
	for i, n := range sizes {
		list[i] = Of(n, uint64(i+1)*1000)
	}
	return list
}

// TestFollows: what a cursor answers where the requests are not those that it expects. A
// number is the position whose place is answered, -1: none.
func TestFollows(t *testing.T) {
	for _, c := range []struct {
		name     string
		expected []uint64
		requests []uint64
		want     []int
	}{
		{"the same", []uint64{4, 2, 4, 6}, []uint64{4, 2, 4, 6}, []int{0, 1, 2, 3}},
		{"one inserted", []uint64{4, 2, 4, 6}, []uint64{4, 9, 2, 4, 6}, []int{0, -1, -1, -1, -1}},
		{"another size", []uint64{4, 2, 4, 6}, []uint64{4, 3, 4, 6}, []int{0, -1, -1, -1}},
		{"one left out", []uint64{4, 2, 5, 6, 7}, []uint64{4, 5, 6, 7}, []int{0, -1, -1, -1}},
		{"more than expected", []uint64{4, 2}, []uint64{4, 2, 4, 2}, []int{0, 1, -1, -1}},
		{"nothing expected", nil, []uint64{4, 2}, []int{-1, -1}},
		{"no place", []uint64{4}, []uint64{4}, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cursor := Cursor{Entries: entries(c.expected...)}
			for round := range 2 {
				matched := 0
				for i, n := range c.requests {
					got, want := cursor.Next(n), Entry(0)
					if c.want[i] >= 0 {
						want = cursor.Entries[c.want[i]]
						matched++
					}
					if got != want {
						t.Fatalf("round %d, request %d of %d units: %d at %d, want %d at %d", round,
							i, n, got.Size(), got.Place(), want.Size(), want.Place())
					}
				}
				if cursor.At != matched {
					t.Errorf("the cursor is at %d behind %d that were expected", cursor.At, matched)
				}
				cursor.Replace(cursor.Entries)
			}
		})
	}
}

// TestReader: every event is told of its block, and a block whose address comes again while it
// waited for other streams was done before.
func TestReader(t *testing.T) {
	var r Reader
	a, b := uint64(4096), uint64(8192)
	events := []Event{
		EventOf(EventFree, b, 9, 0), // of before
		EventOf(EventMiss, a, 1, 0), EventOf(EventHit, b, 2, 0), EventOf(EventLate, a, 1,
			0), EventOf(EventFree, b, 2, 0),
		EventOf(EventTrim, 0, 0, 0), EventOf(EventMiss, a, 3, 0), EventOf(EventLate, a, 3,
			0), EventOf(EventDone, a, 3, 0), EventOf(EventDone, a, 1, 0),
	}
	// late news of the block before
	events = append(events, EventOf(EventMiss, b, 4, 0), EventOf(EventDone, b, 2, 0))
	var got []string
	for i, l := range r.Read(events) {
		got = append(got, fmt.Sprint(i, ":", l.Kind, " ", l.Block))
	}
	want := []string{"0:3 -1", "1:2 0", "2:1 1", "3:4 0", "4:3 1", "5:6 -1", "6:5 0", "6:2 2",
		"7:4 2", "8:5 2", "10:2 3"}
	if !slices.Equal(got, want) {
		t.Errorf("read\n%q, want\n%q", got, want)
	}
}

// TestEntry: a size and a place come back from one word, up to the largest of both.
func TestEntry(t *testing.T) {
	for _, e := range [][2]uint64{{1, 0}, {1<<31 - 1, 1<<33 - 1}, {7, 12345678901 % (1 << 33)}} {
		if got := Of(e[0], e[1]); got.Size() != e[0] || got.Place() != e[1] {
			t.Errorf("%v came back as %d at %d", e, got.Size(), got.Place())
		}
	}
}

// TestEvent: what an event is made of comes back from it, up to the largest of each.
func TestEvent(t *testing.T) {
	for _, x := range []Event{EventOf(EventHit, 1, 2, 3), EventOf(EventDone, 1<<50, 1<<40-1,
		1<<16-1)} {
		if got := EventOf(x.Kind(), x.Addr, x.Size(), x.Stream()); got != x {
			t.Errorf("%+v came back as %+v", x, got)
		}
	}
	if e := EventOf(EventLate, 8, 5, 7); e.Kind() != EventLate || e.Size() != 5 || e.Stream() != 7 {
		t.Errorf("%+v: kind %d, size %d, stream %d", e, e.Kind(), e.Size(), e.Stream())
	}
}

// BenchmarkNext is a request that the cursor expects.
func BenchmarkNext(b *testing.B) {
	sizes := make([]uint64, 4096)
	for i := range sizes {
		sizes[i] = uint64(i%7 + 1)
	}
	cursor := Cursor{Entries: entries(sizes...)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(sizes) == 0 {
			cursor.Replace(cursor.Entries)
		}
		if cursor.Next(sizes[i%len(sizes)]) == 0 {
			b.Fatal("a miss")
		}
	}
}
