package drift

import "stalloc/internal/mem"

// Model is a stack of layers under training. Fields may change between steps.
type Model struct {
	Layers int
	Width  mem.Bytes // of a layer's weights
	Batch  int       // activations grow with it
	Micro  int       // microbatches whose gradients are added up, 0: one
	Frozen int       // the first layers, which get no gradient
	Late   bool      // gradients are freed when the next step begins
	// Between is called between the forward and the backward pass; nil: nothing is.
	Between func()

	weights []Block
	grads   []Block
	states  map[int][]Block // of the optimizer, by layer
	loss    []Block         // kept until the next one replaces it
}

// Setup loads the weights.
func (m *Model) Setup(p *Program) {
	for range m.Layers {
		staged := p.Alloc(m.Width) // a copy that is converted
		m.weights = append(m.weights, p.Alloc(m.Width/2), p.Alloc(4096))
		p.Free(staged)
	}
	m.states = make(map[int][]Block)
}

func (m *Model) activation() mem.Bytes { return mem.Bytes(m.Batch) * 384 * mem.KiB }

// forward returns the activations kept for the backward pass, all of them in
// training, none in evaluation.
func (m *Model) forward(p *Program, training bool) (kept []Block) {
	x := p.Alloc(m.activation())
	for layer := range m.Layers {
		mask := p.Alloc(m.activation() / 8)
		hidden := p.Alloc(4 * m.activation())
		y := p.Alloc(m.activation())
		if training && layer >= m.Frozen {
			kept = append(kept, mask, hidden, x)
		} else {
			p.Free(mask, hidden, x)
		}
		x = y
	}
	return append(kept, x)
}

// Forward is a forward pass for training, in case it is all there is of a step.
// It returns its blocks.
func (m *Model) Forward(p *Program) []Block { return m.forward(p, true) }

// Evaluate runs batches forward. Its batches are of another size.
func (m *Model) Evaluate(p *Program, batches int) {
	train := m.Batch
	m.Batch = train/2 + 3
	m.Validate(p, batches)
	m.Batch = train
}

// Validate runs batches forward that are as large as those of training.
func (m *Model) Validate(p *Program, batches int) {
	for range batches {
		kept := m.forward(p, false)
		score := p.Alloc(1000)
		p.Free(kept...)
		p.Free(score)
	}
}

// Save copies the weights, all at once.
func (m *Model) Save(p *Program) {
	var copies []Block
	for range m.Layers {
		copies = append(copies, p.Alloc(m.Width/2), p.Alloc(4096))
	}
	p.Free(copies...)
}

// Accumulate is a microbatch more.
func (m *Model) Accumulate(p *Program) { m.backward(p, m.forward(p, true)) }

func (m *Model) backward(p *Program, kept []Block) {
	dy := p.Alloc(m.activation())
	p.Free(kept[len(kept)-1])
	kept = kept[:len(kept)-1]
	for layer := m.Layers - 1; layer >= m.Frozen; layer-- {
		dhidden := p.Alloc(4 * m.activation())
		dw := p.Alloc(m.Width / 2)
		workspace := p.Alloc(m.activation()/2 + 32*mem.KiB)
		dx := p.Alloc(m.activation())
		p.Free(workspace, dhidden, dy)
		p.Free(kept[len(kept)-3:]...)
		kept = kept[:len(kept)-3]
		if len(m.grads) <= m.Layers-1-layer {
			m.grads = append(m.grads, dw)
		} else { // added to the gradient there is
			p.Free(dw)
		}
		dy = dx
	}
	p.Free(dy)
}

// Train is a training step without its boundary.
func (m *Model) Train(p *Program) {
	m.Zero(p)
	for range max(m.Micro, 1) {
		kept := m.forward(p, true)
		loss := p.Alloc(512)
		p.Free(m.loss...)
		m.loss = []Block{loss}
		if m.Between != nil {
			m.Between()
		}
		m.backward(p, kept)
	}
	m.optimize(p)
}

func (m *Model) optimize(p *Program) {
	for layer := m.Frozen; layer < m.Layers; layer++ {
		if m.states[layer] == nil {
			m.states[layer] = []Block{p.Alloc(m.Width), p.Alloc(m.Width)}
		}
		update, root := p.Alloc(m.Width), p.Alloc(m.Width)
		p.Free(update, root)
	}
	if !m.Late {
		m.Zero(p)
	}
}

// Zero frees the gradients.
func (m *Model) Zero(p *Program) {
	p.Free(m.grads...)
	m.grads = nil
}

// Unload gives everything back.
func (m *Model) Unload(p *Program) {
	m.Zero(p)
	p.Free(m.weights...)
	p.Free(m.loss...)
	for layer := range m.Layers {
		p.Free(m.states[layer]...)
	}
	m.weights, m.loss, m.states = nil, nil, nil
}
