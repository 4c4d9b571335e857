package actors

import (
	"errors"
	"fmt"
	"testing"

	"stalloc/internal/mem"
)

// other is a stream that uses blocks of the first one.
const other = 7

// borrowed returns a block of the kit's that the other stream works on.
func (k *kit) borrowed(size mem.Bytes) mem.Addr {
	k.t.Helper()
	at := k.malloc(size)
	if err := errors.Join(k.gpu.Use(other, at, size), k.Record(at, other)); err != nil {
		k.t.Fatal(err)
	}
	return at
}

// avoids fails if bytes from at on are handed out.
func (k *kit) avoids(at mem.Addr, size mem.Bytes) {
	k.t.Helper()
	for range 50 {
		again := k.malloc(size)
		if again < at+mem.Addr(size) && at < again+mem.Addr(size) {
			k.t.Fatal("the bytes were handed out while another stream used them")
		}
		k.release(again)
	}
}

// TestUsedBlocks frees a planned block that another stream uses, while its plan serves and
// after that, once and twice. It waits for that stream, and is free once it has passed. The
// second free is of nothing.
func TestUsedBlocks(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprintf("replaced %t, twice %t", replaced, twice), func(t *testing.T) {
				k := newKit(t, Options{})
				size := tens(4)[0]
				k.learn(tens(4)...)
				before := k.Stats().Hits
				at := k.borrowed(size)
				if k.Stats().Hits == before {
					t.Fatal("the request missed")
				}
				if start, n, err := k.Find(at + 1000); err != nil || start != at || n != size {
					t.Fatalf("found %v bytes at %x, %v", n, start, err)
				}
				k.release(at)
				if replaced {
					k.learn(tens(9)[4:]...)
				}
				if twice {
					if err := k.Release(at); !errors.Is(err, ErrUnknown) {
						t.Errorf("freed twice: %v", err)
					}
				}
				if _, _, err := k.Find(at + 1000); err == nil {
					t.Error("a freed block was found")
				}
				k.avoids(at, size)
				if s := k.Stats(); s.Pending != size {
					t.Errorf("%v are pending", s.Pending)
				}
				k.gpu.Finish(other)
				k.boundary()
				k.empty()
			})
		}
	}
}

// TestUsedByTwo has two streams use a planned block: it waits for both.
func TestUsedByTwo(t *testing.T) {
	k := newKit(t, Options{})
	size := tens(4)[0]
	k.learn(tens(4)...)
	at := k.borrowed(size)
	if err := k.Record(at, other+1); err != nil {
		t.Fatal(err)
	}
	k.release(at)
	k.boundary()
	k.gpu.Finish(other)
	k.boundary()
	k.avoids(at, size)
	if s := k.Stats(); s.Pending != size {
		t.Errorf("%v are pending, one of two streams has passed", s.Pending)
	}
	k.gpu.Finish(other + 1)
	k.boundary()
	k.empty()
}

// TestLateBlocksAreServed: blocks that another stream is done with only after a while have
// places from which they are gone when these are planned again.
func TestLateBlocksAreServed(t *testing.T) {
	k := newKit(t, Options{})
	sizes := tens(12)
	for step := range 10 {
		before := k.Stats()
		var late mem.Addr
		for i, size := range sizes {
			at := k.borrowed(size)
			k.release(at)
			if i%3 == 2 { // its work is over, and that of those before it
				k.gpu.Finish(other)
			}
			late = at
		}
		k.boundary()
		if hits := k.Stats().Hits - before.Hits; step >= 4 && hits != uint64(len(sizes)) {
			t.Errorf("step %d: %d of %d requests hit", step, hits, len(sizes))
		}
		if _, _, err := k.Find(late); err == nil {
			t.Error("a freed block was found")
		}
	}
	k.empty()
}
