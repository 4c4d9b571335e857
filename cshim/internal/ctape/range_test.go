package ctape

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// pair is twins without tapes: the engine lends its state to C before every request and every
// free, operations fail, and all arrays are compared.
type pair struct {
	r         *rand.Rand
	alone     *onerange.Engine
	lending   *onerange.Engine
	quickly   *Device // without tapes
	a, b      onerange.Lent
	live      []block
	fences    []driver.Fence
	failing   int // one operation in so many fails; 0: none
	requests  int
	quick     int // of them, served by C
	frees     int
	quickFree int
}

// step has both engines take an event, and compares what they ask for.
func (p *pair) step(ev engine.Event) (last engine.Op, err error) {
	for {
		a, b := p.alone.Step(ev, nil), p.lending.Step(ev, nil)
		if !slices.Equal(a, b) {
			return last, fmt.Errorf("event %+v: alone %+v, lending %+v", ev, a, b)
		}
		if len(a) == 0 {
			return engine.Op{}, nil
		}
		last = a[len(a)-1]
		failed := -1
		for i, op := range a {
			if op.Kind < engine.OpResume && p.failing > 0 && p.r.IntN(p.failing) == 0 {
				failed = i
				break
			}
			if op.Kind == engine.OpRecord {
				p.fences = append(p.fences, op.Fence)
			}
		}
		switch {
		case failed >= 0:
			ev = engine.Event{Kind: engine.EvFailed, Failed: failed, Code: driver.CodeOutOfMemory}
		case last.Kind == engine.OpResume:
			ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
		default:
			return last, nil
		}
	}
}

// lend lends both, so that their arrays grow alike, and compares the counters.
func (p *pair) lend() error {
	if !p.alone.Lend(&p.a) || !p.lending.Lend(&p.b) {
		return fmt.Errorf("an engine does not lend its state")
	}
	if p.a.Counters != p.b.Counters {
		return fmt.Errorf("counters differ:\nalone   %+v\nlending %+v", p.a.Counters, p.b.Counters)
	}
	p.quickly.Lend(&p.b, math.MaxUint64, math.MaxUint64, false)
	return nil
}

func (p *pair) takeBack() error {
	if !p.quickly.TakeBack(&p.b.Counters) {
		return fmt.Errorf("an equation did not hold in C")
	}
	p.lending.TakeBack(&p.b.Counters)
	return nil
}

func (p *pair) alloc(size mem.Bytes, stream mem.StreamID) error {
	p.requests++
	if err := p.lend(); err != nil {
		return err
	}
	addr := p.quickly.Alloc(stream, size)
	if err := p.takeBack(); err != nil {
		return err
	}
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Size: size, Stream: stream}
	if addr == 0 {
		got, err := p.step(ev)
		if err == nil && got.Kind == engine.OpGrant {
			p.live = append(p.live, block{got.Addr, got.Size, size, stream})
		}
		return err
	}
	p.quick++
	want := []engine.Op{{Kind: engine.OpGrant, Req: 1, Addr: addr, Size: mem.Round(size)}}
	if got := p.alone.Step(ev, nil); !slices.Equal(got, want) {
		return fmt.Errorf("C granted %+v, the engine says %+v", want, got)
	}
	p.live = append(p.live, block{addr, mem.Round(size), size, stream})
	return nil
}

func (p *pair) free(i int) error {
	x := p.live[i]
	p.live = slices.Delete(p.live, i, i+1)
	p.frees++
	if err := p.lend(); err != nil {
		return err
	}
	if p.quickly.Free(x.stream, x.addr+mem.Addr(mem.Grain)/2, x.size) {
		return fmt.Errorf("the middle of %+v could be freed", x)
	}
	done := p.quickly.Free(x.stream, x.addr, x.size)
	if done && p.quickly.Free(x.stream, x.addr, x.size) {
		return fmt.Errorf("%+v could be freed twice", x)
	}
	if err := p.takeBack(); err != nil {
		return err
	}
	ev := engine.Event{Kind: engine.EvFree, Addr: x.addr}
	if !done {
		if got, ok := p.lending.Lookup(x.addr); !ok || got.Size != x.size || got.Asked != x.asked {
			return fmt.Errorf("%+v is known as %+v", x, got)
		}
		_, err := p.step(ev)
		return err
	}
	p.quickFree++
	if got := p.alone.Step(ev, nil); len(got) > 0 {
		return fmt.Errorf("C freed %+v, the engine says %+v", x, got)
	}
	return nil
}

// same compares every array, and checks that the lending engine's state is sound.
func (p *pair) same() error {
	if err := p.lend(); err != nil {
		return err
	}
	if err := p.takeBack(); err != nil {
		return err
	}
	a, b := reflect.ValueOf(&p.a).Elem(), reflect.ValueOf(&p.b).Elem()
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			return fmt.Errorf("%s differ", a.Type().Field(i).Name)
		}
	}
	if err := p.lending.Check(); err != nil {
		return err
	}
	return p.alone.Check()
}

func (p *pair) size() mem.Bytes {
	switch n := mem.Bytes(p.r.IntN(64)); p.r.IntN(8) {
	case 0, 1, 2:
		return n * 700
	case 3, 4:
		return (n + 1) * 37 * mem.KiB
	case 5:
		return (n%8 + 1) * 3 * mem.MiB / 2
	case 6:
		return (n%12 + 1) * mem.MiB
	default:
		return (n%4 + 15) * 5 * mem.MiB // some of them more than C takes
	}
}

// one does one random thing.
func (p *pair) one() (err error) {
	stream := mem.StreamID(max(p.r.IntN(6)-3, 0))
	switch k := p.r.IntN(100); {
	case k < 46:
		return p.alloc(p.size(), stream)
	case k < 88:
		if len(p.live) > 0 {
			return p.free(p.r.IntN(len(p.live)))
		}
	case k < 91:
		if len(p.live) > 0 {
			_, err = p.step(engine.Event{Kind: engine.EvRecord, Addr: p.live[p.r.IntN(len(p.live))].addr, Stream: stream})
		}
	case k < 94:
		if n := len(p.fences); n > 0 {
			f := p.fences[n-1]
			p.fences = p.fences[:n-1]
			_, err = p.step(engine.Event{Kind: engine.EvFence, Fence: f})
		}
	case k < 96:
		var got engine.Op
		size := p.size()
		got, err = p.step(engine.Event{Kind: engine.EvAlloc, Req: 2, Size: size, Stream: stream, Pool: 1})
		if got.Kind == engine.OpGrant {
			p.live = append(p.live, block{got.Addr, got.Size, size, stream})
		}
	case k < 98:
		_, err = p.step(engine.Event{Kind: engine.EvBoundary, Driver: int64(p.r.IntN(3)), Took: 256})
	default:
		_, err = p.step(engine.Event{Kind: engine.EvTrim})
	}
	return err
}

var variants = []struct {
	name    string
	cfg     func(*onerange.Config)
	failing int
}{
	{"plain", func(*onerange.Config) {}, 0},
	{"small handles", func(c *onerange.Config) { c.HandleMost = 0 }, 0},
	{"laid anew", func(c *onerange.Config) { c.Dear = -1 }, 0},
	{"limit", func(c *onerange.Config) { c.Limit = 300 * mem.MiB }, 0},
	{"faults", func(*onerange.Config) {}, 30},
}

// TestRangeLockStep: what C serves is what the engine would have served, and leaves the
// same state.
func TestRangeLockStep(t *testing.T) {
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			for round := range 4 {
				seed := uint64(i)<<8 | uint64(round)
				cfg := onerange.DefaultConfig()
				cfg.Window = 64 * mem.GiB
				v.cfg(&cfg)
				p := &pair{r: rand.New(rand.NewPCG(seed, 5)), alone: onerange.New(cfg), lending: onerange.New(cfg), quickly: New(), failing: v.failing}
				defer p.quickly.Close()
				for n := range 4000 {
					err := p.one()
					if err == nil && n%100 == 99 {
						err = p.same()
					}
					if err != nil {
						t.Fatalf("seed %d, event %d: %v", seed, n, err)
					}
				}
				t.Logf("seed %d: C served %d of %d requests and %d of %d frees", seed, p.quick, p.requests, p.quickFree, p.frees)
				if p.quick < p.requests/3 || p.quickFree < p.frees/4 {
					t.Errorf("seed %d: C served only %d of %d requests and %d of %d frees", seed, p.quick, p.requests, p.quickFree, p.frees)
				}
			}
		})
	}
}
