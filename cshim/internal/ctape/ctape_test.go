package ctape

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/stream"
)

const base = mem.Addr(1 << 40)

// program is a random valid plan: slots placed first fit along a random order.
// Some persist, and are allocated in the first order only; some are the pool's.
func program(r *rand.Rand, n int) (slots []stream.Slot, first, steady []int32) {
	sizes := []mem.Bytes{512, 512, 1024, 4096, 1 << 20, 2 << 20}
	var live, placed []int32
	for len(slots) < n || len(live) > 0 {
		if len(slots) < n && (len(live) == 0 || r.IntN(2) == 0) {
			s := stream.Slot{Size: sizes[r.IntN(len(sizes))], Persist: r.IntN(12) == 0}
			s.Pool = !s.Persist && r.IntN(12) == 0
			at := int32(len(slots))
			switch {
			case s.Persist: // live at every place of the second order
				s.Offset = lowest(slots, placed, s.Size)
			case !s.Pool:
				s.Offset = lowest(slots, live, s.Size)
			}
			first = append(first, at)
			if !s.Persist {
				steady = append(steady, at)
			}
			if !s.Pool { // a persistent slot stays live: nothing is ever placed over it
				live, placed = append(live, at), append(placed, at)
			}
			slots = append(slots, s)
			continue
		}
		transient := slices.DeleteFunc(slices.Clone(live), func(l int32) bool { return slots[l].Persist })
		if len(transient) == 0 {
			if len(slots) == n {
				break
			}
			slots = append(slots, stream.Slot{Size: 512, Offset: lowest(slots, live, 512)})
			at := int32(len(slots) - 1)
			live, placed = append(live, at), append(placed, at)
			first, steady = append(first, at), append(steady, at)
			n = max(n, len(slots))
			continue
		}
		gone := transient[r.IntN(len(transient))]
		first, steady = append(first, ^gone), append(steady, ^gone)
		live = slices.DeleteFunc(live, func(l int32) bool { return l == gone })
	}
	return slots, first, steady
}

// lowest returns the lowest offset where nothing is live.
func lowest(slots []stream.Slot, live []int32, size mem.Bytes) (at mem.Offset) {
	for moved := true; moved; {
		moved = false
		for _, l := range live {
			s := slots[l]
			if at < s.Offset+mem.Offset(s.Size) && s.Offset < at+mem.Offset(size) {
				at, moved = s.Offset+mem.Offset(s.Size), true
			}
		}
	}
	return at
}

// pair is one program served twice: by Go alone, and by C with Go behind it.
type pair struct {
	r      *rand.Rand
	slots  []stream.Slot
	orders [][]int32
	ref    *stream.Tape
	both   *Tape
	live   []held
	quick  int // requests that C served itself
	want   []Event
}

type held struct {
	addr   mem.Addr
	asked  mem.Bytes
	pinned bool
}

func newPair(seed uint64, n int) (*pair, error) {
	p := &pair{r: rand.New(rand.NewPCG(seed, 2))}
	var first, steady []int32
	p.slots, first, steady = program(p.r, n)
	p.orders = [][]int32{first, steady}
	layout, err := stream.Lay(p.slots, first, steady)
	if err != nil {
		return nil, err
	}
	var size mem.Bytes
	for _, s := range p.slots {
		size = max(size, mem.Bytes(s.Offset)+s.Size)
	}
	p.ref = stream.New(layout, base)
	p.both = New(layout, base, size)
	return p, nil
}

// same compares everything that both sides keep.
func (p *pair) same() error {
	if a, b := *p.ref.State, *p.both.Go.State; a != b {
		return fmt.Errorf("states differ:\nGo %+v\nC  %+v", a, b)
	}
	for place, a := range p.ref.Live {
		b := p.both.Go.Live[place]
		if a.Slot == 0 { // what was asked for is of no use any more
			a.Asked, b.Asked = 0, 0
		}
		if a != b {
			return fmt.Errorf("place %d: Go %+v, C %+v", place, a, b)
		}
	}
	var rounded, asked mem.Bytes
	for _, h := range p.live {
		rounded += mem.Round(h.asked)
		asked += h.asked
	}
	if n, r, a := p.both.Counts(); n != len(p.live) || r != rounded || a != asked {
		return fmt.Errorf("C counts %d blocks, %d bytes, %d asked for; there are %d, %d, %d", n, r, a, len(p.live), rounded, asked)
	}
	if got := p.both.Events(); !slices.Equal(got, p.want) {
		return fmt.Errorf("events %+v, want %+v", got, p.want)
	}
	p.want = p.want[:0]
	return p.ref.Check()
}

// takes says what the quick case ought to do with an entry.
func (p *pair) takes(e *stream.Entry, n mem.Bytes) bool {
	if e.Slot == stream.None || e.Size == 0 || p.slots[e.Slot].Spread == 0 {
		return e.Size == uint64(n)
	}
	s := p.slots[e.Slot]
	return n >= s.Size-s.Spread && n <= s.Size
}

func (p *pair) alloc(asked mem.Bytes) error {
	s, n := p.ref.State, mem.Round(asked)
	e := p.ref.Entries[s.Cursor]
	plain := p.takes(&e, n) && s.Owed|s.Partial|s.Off == 0
	want := p.ref.Alloc(asked)
	at, answer := p.both.Quick(asked)
	if plain != (answer != Refused) {
		return fmt.Errorf("request of %d: quick is %v, C answered %d", asked, plain, answer)
	}
	got := stream.Served{Addr: at, Slot: want.Slot}
	switch answer {
	case Served:
		p.quick++
	case Pool:
		got.Slot, got.Pool = stream.None, true
	case Refused:
		got = p.both.Go.Alloc(asked)
		p.both.Turned()
		if got.Slot != stream.None {
			p.both.HandOut(got.Addr, asked)
		}
	}
	if got != want {
		return fmt.Errorf("request of %d: Go served %+v, C %+v", asked, want, got)
	}
	if want.Slot != stream.None {
		p.want = append(p.want, Event{want.Addr, n, Hit})
		p.live = append(p.live, held{addr: want.Addr, asked: asked})
	}
	return nil
}

// free ends the life of a live block, now or announced by another thread.
func (p *pair) free(i int) error {
	h := p.live[i]
	p.live = slices.Delete(p.live, i, i+1)
	want := p.ref.Free(h.addr)
	if want.Slot == stream.None || want.Asked != h.asked || want.Pinned != h.pinned {
		return fmt.Errorf("free of %+v: Go answered %+v", h, want)
	}
	p.want = append(p.want, Event{h.addr, mem.Round(h.asked), Free})
	if !h.pinned && p.r.IntN(4) == 0 {
		for range 2 {
			if !p.both.Defer(h.addr) {
				return fmt.Errorf("the free of %+v was not announced", h)
			}
		}
		if n := p.both.Drain(); n != 1 {
			return fmt.Errorf("of two frees of %+v, %d were of no live slot", h, n)
		}
		return nil
	}
	found, pinned := p.both.Free(h.addr)
	if !found || pinned != h.pinned {
		return fmt.Errorf("free of %+v: C answered %v, %v", h, found, pinned)
	}
	if pinned { // its fences pass at once
		p.ref.Release(h.addr)
		p.both.Go.Release(h.addr)
	}
	return nil
}

func (p *pair) freeAddr(addr mem.Addr) error {
	if i := slices.IndexFunc(p.live, func(h held) bool { return h.addr == addr }); i >= 0 {
		return p.free(i)
	}
	return nil
}

// nobody frees addresses where no block starts.
func (p *pair) nobody() error {
	addr := base + mem.Addr(p.r.IntN(1<<16)*256)
	if slices.ContainsFunc(p.live, func(h held) bool { return h.addr == addr }) {
		return nil
	}
	if f := p.ref.Free(addr); f.Slot != stream.None {
		return fmt.Errorf("Go freed %#x: %+v", addr, f)
	} else if f.Guest { // no block of the quick case's: C asks Go about it
		p.both.Go.Free(addr)
	}
	if found, _ := p.both.Free(addr); found {
		return fmt.Errorf("C freed %#x", addr)
	}
	return nil
}

func (p *pair) pin() {
	if len(p.live) == 0 {
		return
	}
	h := &p.live[p.r.IntN(len(p.live))]
	h.pinned = p.ref.Pin(h.addr)
	p.both.Go.Pin(h.addr)
}

// event performs one planned event, or something else in its place.
func (p *pair) event(e int32, at []mem.Addr, noise float64) (err error) {
	odd := p.r.Float64() < noise
	switch {
	case e >= 0 && odd && p.r.IntN(2) == 0: // left out
	case e >= 0 && odd:
		err = p.alloc(p.slots[e].Size + mem.Bytes(p.r.IntN(1024)))
	case e >= 0:
		before := len(p.live)
		if err = p.alloc(p.slots[e].Size - mem.Bytes(p.r.IntN(512))); err == nil && len(p.live) > before {
			at[e] = p.live[before].addr
		}
	case odd: // late, perhaps for ever
	default:
		err = p.freeAddr(at[^e])
	}
	if err == nil && p.r.Float64() < noise {
		switch p.r.IntN(5) {
		case 0:
			err = p.nobody()
		case 1:
			p.pin()
		case 2:
			if len(p.live) > 0 {
				err = p.free(p.r.IntN(len(p.live)))
			}
		case 3:
			err = p.alloc(p.slots[p.r.IntN(len(p.slots))].Size)
		default:
			partial := uint32(p.r.IntN(2))
			p.ref.State.Partial, p.both.Go.State.Partial = partial, partial
		}
	}
	return err
}

// differ plays a program and returns how many requests C served itself.
func differ(seed uint64, n, steps int, noise float64) (int, error) {
	p, err := newPair(seed, n)
	if err != nil {
		return 0, err
	}
	defer p.both.Delete()
	for step := 0; step < steps; step++ {
		order := min(step, 1)
		at := make([]mem.Addr, len(p.slots))
		for i, e := range p.orders[order] {
			if err = p.event(e, at, noise); err == nil {
				err = p.same()
			}
			if err != nil {
				return 0, fmt.Errorf("seed %d, %d slots, noise %v: step %d, event %d: %w", seed, n, noise, step, i, err)
			}
		}
		if order == 1 {
			p.ref.Step()
			p.both.Step()
		} else {
			p.ref.Play(1)
			p.both.Play(1)
		}
		if err = p.same(); err != nil {
			return 0, fmt.Errorf("seed %d, %d slots, noise %v: end of step %d: %w", seed, n, noise, step, err)
		}
	}
	for len(p.live) > 0 {
		if err = p.free(len(p.live) - 1); err == nil {
			err = p.same()
		}
		if err != nil {
			return 0, fmt.Errorf("seed %d: at the end: %w", seed, err)
		}
	}
	return p.quick, nil
}

func TestQuickCasesAgreeWithGo(t *testing.T) {
	seed := rand.Uint64() % 1e9
	t.Logf("seeds from %d", seed)
	quick := 0
	for n := 1; n <= 64; n *= 2 {
		for i := range uint64(40) {
			for _, noise := range []float64{0, 0.03, 0.3} {
				served, err := differ(seed+i, n, 4, noise)
				if err != nil {
					t.Fatal(err)
				}
				quick += served
			}
		}
	}
	if quick < 1000 {
		t.Errorf("C served only %d requests itself", quick)
	}
}

func FuzzQuickCasesAgreeWithGo(f *testing.F) {
	f.Add(uint64(1), uint8(20), uint8(3), uint8(10))
	f.Add(uint64(2), uint8(80), uint8(2), uint8(100))
	f.Fuzz(func(t *testing.T, seed uint64, n, steps, noise uint8) {
		if _, err := differ(seed, int(n)+1, int(steps%6)+1, float64(noise)/256); err != nil {
			t.Fatal(err)
		}
	})
}
