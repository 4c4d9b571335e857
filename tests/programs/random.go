package programs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// A life is when a block ends.
type life int

const (
	nested    life = iota // as late before the step's end as it began after its beginning
	temporary             // some requests later
	wandering             // anywhere until the next step's end
	lasting               // never, of the first step; temporary later
	lives
)

// A phase is a part of a step: what is asked for in it, and for how long.
type phase struct {
	from, to int // ticks
	sizes    []mem.Bytes
	weights  [lives]float64
	asks     float64 // requests a tick
	stream   mem.StreamID
}

// program is what a seed stands for.
type program struct {
	*recorder
	rng     *rand.Rand
	ticks   int // in a step
	streams int
	varies  float64 // sizes change by up to that factor, each time
	brief   float64 // the mean life of temporary blocks
	target  mem.Bytes
	phases  []phase
	due     map[int][]int64 // by tick
}

// Random returns the program of a seed: its memory, sizes, lives and phases, and whether its steps
// repeat, are drawn each on its own.
func Random(seed uint64) *trace.Trace {
	p := &program{recorder: newRecorder(fmt.Sprintf("random-%d", seed)), rng: rand.New(rand.NewPCG(seed, 1)),
		due: map[int][]int64{}}
	p.target = mem.Bytes(p.between(float64(mem.GiB), float64(64*mem.GiB)))
	p.ticks = int(p.between(100, 3000))
	p.brief = p.between(1, 100)
	if p.streams = 1; p.rng.Float64() < 0.2 {
		p.streams = 2 + p.rng.IntN(3)
	}
	if p.rng.Float64() < 0.4 {
		p.varies = p.rng.Float64()
	}
	p.draw()
	p.put(trace.Event{Kind: trace.Mark, Mark: "setup"})
	for set := mem.Bytes(float64(p.target) * 0.6 * p.rng.Float64()); p.load < set; {
		p.alloc(p.pick(p.phases[0].sizes), 0)
	}
	repeats, again := p.rng.Float64() < 0.5, p.rng.Uint64()
	steps := 4 + p.rng.IntN(7)
	turn := p.rng.IntN(2 * steps) // the program turns to something else
	for n := range steps {
		if n == turn {
			p.draw()
			again++
		}
		if repeats {
			p.rng = rand.New(rand.NewPCG(again, 2))
		}
		p.step()
		p.oneStep(n)
	}
	return p.end()
}

// between draws from a range, each order of magnitude as often.
func (p *program) between(low, high float64) float64 {
	return low * math.Exp(p.rng.Float64()*math.Log(high/low))
}

// draw makes phases that come to the target together, about.
func (p *program) draw() {
	p.phases = nil
	mean := float64(p.target) / float64(p.ticks)
	for n, from := 1+p.rng.IntN(4), 0; from < p.ticks; {
		to := min(p.ticks, from+1+p.rng.IntN(2*p.ticks/n))
		ph := phase{from: from, to: to, asks: p.between(0.2, 2),
			stream: mem.StreamID(p.rng.IntN(p.streams))}
		centre, wide := mean*p.between(0.3, 3), 2*p.rng.Float64()
		for range 1 + p.rng.IntN(30) {
			size := centre * math.Exp(wide*p.rng.NormFloat64()-wide*wide/2)
			ph.sizes = append(ph.sizes, p.bounded(size))
		}
		for l := range ph.weights {
			ph.weights[l] = p.rng.ExpFloat64()
		}
		p.phases = append(p.phases, ph)
		from = to
	}
}

func (p *program) bounded(size float64) mem.Bytes {
	return mem.Bytes(min(max(size, 4), float64(p.target)/8))
}

func (p *program) pick(sizes []mem.Bytes) mem.Bytes {
	size := float64(sizes[p.rng.IntN(len(sizes))])
	return p.bounded(size * (1 + p.varies*(p.rng.Float64()-0.5)))
}

// oneStep goes through the phases, and back through the lives of nested blocks.
func (p *program) oneStep(n int) {
	for tick := range p.ticks {
		now := n*p.ticks + tick
		for _, id := range slices.Backward(p.due[now]) {
			p.free(id)
		}
		delete(p.due, now)
		at := slices.IndexFunc(p.phases, func(ph phase) bool { return tick < ph.to })
		ph := &p.phases[at]
		asks := int(ph.asks)
		if p.rng.Float64() < ph.asks-float64(asks) {
			asks++
		}
		for range asks {
			size := p.pick(ph.sizes)
			if end := p.ends(ph, n, now); p.load+mem.Round(size) <= p.target {
				if id := p.alloc(size, ph.stream); end > 0 {
					p.due[end] = append(p.due[end], id)
				}
			}
		}
	}
}

// ends draws the tick at which a block ends; 0: never.
func (p *program) ends(ph *phase, n, now int) int {
	sum := 0.0
	for _, w := range ph.weights {
		sum += w
	}
	kind, at := nested, p.rng.Float64()*sum
	for kind < lives-1 && at >= ph.weights[kind] {
		at -= ph.weights[kind]
		kind++
	}
	switch end := (n + 1) * p.ticks; {
	case kind == nested && now < end-p.ticks/2:
		return end - 1 - (now - n*p.ticks)
	case kind == wandering:
		return now + 1 + p.rng.IntN(end+p.ticks-now)
	case kind == lasting && n == 0 && p.load < p.target/2:
		return 0
	}
	return now + 1 + int(p.brief*p.rng.ExpFloat64())
}
