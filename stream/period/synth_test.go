package period

import (
	"math/rand/v2"

	"stalloc/internal/mem"
)

// program writes the events of an imagined training run, with its marks.
type program struct {
	rng    *rand.Rand
	events []event
	marks  []int // where a step ends
}

// model is a chain of layers; a layer's requests are the same at every batch,
// its sizes grow with the batch.
type model struct {
	params  []mem.Bytes // of every layer, in turn
	layers  int
	hidden  mem.Bytes // bytes a token takes in a layer
	vocab   mem.Bytes // bytes a token takes in the logits
	frozen  int       // the first so many layers have no gradients
	experts int       // per layer; their share of the tokens is random
	states  map[int]bool
	grads   map[int]bool
	keep    bool // gradients are set to zero, not freed
}

func newModel(layers int, hidden mem.Bytes) *model {
	h := hidden / 2
	return &model{
		layers: layers, hidden: hidden, vocab: 16 * hidden,
		params: []mem.Bytes{4 * h * hidden, 4 * hidden, 8 * h * hidden, 8 * h * hidden, 4 * hidden},
		states: map[int]bool{}, grads: map[int]bool{},
	}
}

func (p *program) alloc(n mem.Bytes) mem.Bytes {
	n = mem.Round(n)
	p.events = append(p.events, n)
	return n
}

func (p *program) free(sizes ...mem.Bytes) {
	for _, n := range sizes {
		p.events = append(p.events, -n)
	}
}

func (p *program) mark() { p.marks = append(p.marks, len(p.events)) }

// create allocates the weights, each by way of a temporary.
func (p *program) create(m *model) {
	for range m.layers {
		for _, n := range m.params {
			t := p.alloc(n)
			p.alloc(n)
			p.free(t)
		}
	}
}

// forward returns what it keeps for backward, layer by layer.
func (p *program) forward(m *model, tokens mem.Bytes, train bool) [][]mem.Bytes {
	act := tokens * m.hidden
	x := p.alloc(act)
	kept := make([][]mem.Bytes, 0, m.layers)
	for l := range m.layers {
		k := []mem.Bytes{p.alloc(act), p.alloc(tokens * 8)}
		t := p.alloc(3 * act)
		k = append(k, p.alloc(act))
		p.free(t)
		left := tokens
		for range m.experts {
			share := min(left, mem.Bytes(p.rng.Int64N(int64(tokens))))
			left -= share
			if share == 0 {
				continue // an expert without tokens requests nothing
			}
			t := p.alloc(share * m.hidden * 2)
			k = append(k, p.alloc(share*m.hidden))
			p.free(t)
		}
		y := p.alloc(act)
		k = append(k, x)
		if !train || l < m.frozen {
			p.free(k...) // nothing is kept for what has no gradient
			k = nil
		}
		x = y
		kept = append(kept, k)
	}
	logits := p.alloc(tokens * m.vocab)
	loss := p.alloc(4)
	if !train {
		p.free(x, logits, loss)
		return nil
	}
	return append(kept, []mem.Bytes{x, logits, loss})
}

// backward frees what forward kept and leaves the gradients.
func (p *program) backward(m *model, tokens mem.Bytes, kept [][]mem.Bytes) {
	last := kept[m.layers]
	g := p.alloc(tokens * m.vocab)
	d := p.alloc(tokens * m.hidden)
	p.free(g, last[1], last[0], last[2])
	for l := m.layers - 1; l >= m.frozen; l-- {
		for i, n := range m.params {
			t := p.alloc(tokens * m.hidden)
			id := l*len(m.params) + i
			grad := p.alloc(n)
			if m.grads[id] {
				p.free(grad) // added to the one that is there
			}
			m.grads[id] = true
			p.free(t)
		}
		e := p.alloc(tokens * m.hidden)
		p.free(d)
		d = e
		p.free(kept[l]...)
	}
	p.free(d)
}

// optimize is Adam over all trained parameters at once, or over each alone.
func (p *program) optimize(m *model, foreach bool) {
	var temps []mem.Bytes
	for id := m.frozen * len(m.params); id < m.layers*len(m.params); id++ {
		n := m.params[id%len(m.params)]
		if !m.states[id] {
			m.states[id] = true
			p.alloc(4)
			p.alloc(2 * n)
			p.alloc(2 * n)
		}
		temps = append(temps, p.alloc(n))
		if !foreach {
			t := p.alloc(n)
			p.free(t, mem.Round(n))
			temps = temps[:0]
		}
	}
	p.free(temps...)
}

func (p *program) zeroGrad(m *model) {
	if m.keep {
		return
	}
	for id := range m.layers * len(m.params) {
		if m.grads[id] {
			p.free(mem.Round(m.params[id%len(m.params)]))
			delete(m.grads, id)
		}
	}
}

// train is a forward and a backward pass.
func (p *program) train(m *model, tokens mem.Bytes) {
	p.backward(m, tokens, p.forward(m, tokens, true))
}

// step is a whole training step of so many microbatches.
func (p *program) step(m *model, tokens mem.Bytes, microbatches int) {
	for range microbatches {
		p.train(m, tokens)
	}
	p.optimize(m, true)
	p.zeroGrad(m)
	p.mark()
}
