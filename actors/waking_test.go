package actors

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// waking is a device on which one of the calls fails that make memory or copy to it. It checks that
// what is copied to can be used.
type waking struct {
	*contents
	mu             sync.Mutex
	made, fails    int
	copied, beside bool // beside: memory was made after a copy
}

// arm makes call number n fail, counted from 1 (0: none fails), and returns how many there were.
func (d *waking) arm(n int) (made int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made, d.made, d.fails, d.copied = d.made, 0, n, false
	return made
}

func (d *waking) due(copies bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copied = d.copied || copies
	d.beside = d.beside || d.copied && !copies
	if d.made++; d.made == d.fails {
		return errFailing
	}
	return nil
}

func (d *waking) Create(size mem.Bytes) (driver.Handle, error) {
	if err := d.due(false); err != nil {
		return 0, err
	}
	return d.contents.Create(size)
}

func (d *waking) Map(at mem.Addr, h driver.Handle) error {
	if err := d.due(false); err != nil {
		return err
	}
	return d.contents.Map(at, h)
}

func (d *waking) Access(at mem.Addr, size mem.Bytes) error {
	if err := d.due(false); err != nil {
		return err
	}
	return d.contents.Access(at, size)
}

func (d *waking) Write(to mem.Addr, from []byte) error {
	if err := d.due(true); err != nil {
		return err
	}
	return d.contents.Write(to, from)
}

// number writes numbers into blocks, or reports where they differ.
func (d *waking) number(t *testing.T, write bool, size mem.Bytes, blocks ...mem.Addr) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, at := range blocks {
		d.each("work", at, size, func(off mem.Bytes, x spot) {
			want := uint64(i)<<32 | uint64(off)
			if write {
				d.numbers[x] = want
			} else if got := d.numbers[x]; got != want {
				t.Errorf("block %d has %#x at %v", i, got, off)
			}
		})
	}
}

// TestEachCallOfWakingFails: whichever call fails while memory wakes in parts and is copied to, all
// of it sleeps on, and has its contents once it wakes. Parts are of 128 MiB.
func TestEachCallOfWakingFails(t *testing.T) {
	dev := &waking{contents: newContents(2*mem.GiB, rand.New(rand.NewPCG(1, 1)))}
	l, err := OpenLocal(dev, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	const size = 16*mem.MiB + 512 // a copy's piece may begin in one part and end in the next
	var blocks []mem.Addr
	for i := range 40 { // of two streams: handles are not in the order of addresses
		at, err := l.Malloc(mem.StreamID(i%2), size)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, at)
	}
	dev.number(t, true, size, blocks...)
	failed := 0
	for n, calls := 0, 1; n <= calls && !t.Failed(); n++ {
		if err := l.Pause(nil, true); err != nil || dev.Used() > 0 {
			t.Fatalf("%v are held of what sleeps: %v", dev.Used(), err)
		}
		clear(dev.numbers)
		dev.arm(n)
		err := l.Resume(nil)
		if made := dev.arm(0); err == nil {
			calls = made
		} else {
			failed++
			if s := l.Stats(); !errors.Is(err, errFailing) || s.Asleep == 0 || dev.Used() > 0 {
				t.Errorf("%v sleep, %v are held: %v", s.Asleep, dev.Used(), err)
			}
			clear(dev.numbers)
			err = l.Resume(nil)
		}
		if err != nil {
			t.Errorf("call %d: %v", n, err)
		}
		dev.number(t, false, size, blocks...)
	}
	if failed < 20 || !dev.beside {
		t.Errorf("%d calls have failed, memory woke in parts: %t", failed, dev.beside)
	}
	for _, at := range blocks {
		if err := l.Release(at); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(append(dev.faults, l.Check(), l.Close())...); err != nil {
		t.Error(err)
	}
}
