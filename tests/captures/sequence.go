package captures

import (
	"fmt"

	"stalloc/actors"
	"stalloc/baseline"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// Sequence is what captures into one pool ask for and free, in order.
type Sequence struct {
	calls []call
	live  map[int]call
	load  mem.Bytes
	// Peak is the most that lives at once. Streams is the same of each stream by itself, summed:
	// streams of a capture share no memory.
	Peak, Streams mem.Bytes
	loads, peaks  map[mem.StreamID]mem.Bytes
}

// call asks for a block, or frees it.
type call struct {
	block  int
	size   mem.Bytes // 0: a free
	stream mem.StreamID
}

func newSequence() *Sequence {
	return &Sequence{live: map[int]call{}, loads: map[mem.StreamID]mem.Bytes{},
		peaks: map[mem.StreamID]mem.Bytes{}}
}

func (s *Sequence) alloc(size mem.Bytes, stream mem.StreamID) int {
	c := call{len(s.calls), max(size, 1), stream}
	s.calls = append(s.calls, c)
	s.live[c.block] = c
	s.load += mem.Round(c.size)
	s.loads[stream] += mem.Round(c.size)
	s.Peak = max(s.Peak, s.load)
	if more := s.loads[stream] - s.peaks[stream]; more > 0 {
		s.peaks[stream] += more
		s.Streams += more
	}
	return c.block
}

func (s *Sequence) free(blocks ...int) {
	for _, b := range blocks {
		c := s.live[b]
		delete(s.live, b)
		s.load -= mem.Round(c.size)
		s.loads[c.stream] -= mem.Round(c.size)
		s.calls = append(s.calls, call{block: b, stream: c.stream})
	}
}

// Step captures a step of a recorded run, the last, with large blocks scaled as another batch size
// does. Blocks that outlive it stay, or with ends are freed when it is over.
func (s *Sequence) Step(tr *trace.Trace, scale float64, ends bool) error {
	steps := tr.Steps()
	if len(steps) == 0 {
		return fmt.Errorf("%s has no steps", tr.Name)
	}
	last, own := steps[len(steps)-1], map[int64]int{}
	var order []int64
	for _, e := range tr.Events[last[0]:last[1]] {
		b, known := own[e.ID]
		switch {
		case e.Kind == trace.Alloc:
			size := e.Size
			if size >= mem.MiB {
				size = mem.Bytes(float64(size) * scale)
			}
			own[e.ID] = s.alloc(size, e.Stream)
			order = append(order, e.ID)
		case e.Kind == trace.FreeCompleted && known:
			s.free(b)
			delete(own, e.ID)
		}
	}
	for _, id := range order {
		if b, left := own[id]; left && ends {
			s.free(b)
		}
	}
	return nil
}

// Layers captures a graph for each layer's forward pass, then one for each backward pass, the last
// layer's first. Outputs, gradients of inputs and of parameters stay.
func (s *Sequence) Layers(n int, hidden mem.Bytes) {
	saved := make([][]int, n)
	for i := range n {
		norm := s.alloc(hidden, 0)
		heads := s.alloc(3*hidden, 0)
		mixed := s.alloc(hidden, 0)
		summed := s.alloc(hidden/64, 0)
		projected := s.alloc(hidden, 0)
		middle := s.alloc(hidden, 0)
		s.free(projected)
		second, wide := s.alloc(hidden, 0), s.alloc(4*hidden, 0)
		active := s.alloc(4*hidden, 0)
		narrow := s.alloc(hidden, 0)
		s.alloc(hidden, 0) // the output
		s.free(narrow)
		saved[i] = []int{norm, heads, mixed, summed, middle, second, wide, active}
	}
	for i := n - 1; i >= 0; i-- {
		active := s.alloc(4*hidden, 0)
		s.alloc(hidden/2, 0) // of a parameter
		wide := s.alloc(4*hidden, 0)
		s.free(active)
		s.alloc(hidden/2, 0)
		second := s.alloc(hidden, 0)
		middle := s.alloc(hidden, 0)
		s.free(wide, second)
		mixed := s.alloc(hidden, 0)
		s.alloc(hidden/8, 0)
		scratch, heads := s.alloc(2*hidden, 0), s.alloc(3*hidden, 0)
		s.free(mixed, scratch)
		s.alloc(3*hidden/8, 0)
		norm := s.alloc(hidden, 0)
		s.alloc(hidden, 0) // of the input
		s.free(heads, norm, middle)
		s.free(saved[i]...)
	}
}

// Serve captures the forward pass of an inference server, a graph a batch size. The logits stay.
func (s *Sequence) Serve(layers int, hidden mem.Bytes, batches []int) {
	for _, batch := range batches {
		h := hidden * mem.Bytes(batch)
		x := s.alloc(h, 0)
		for range layers {
			heads := s.alloc(3*h, 0)
			mixed := s.alloc(h, 0)
			s.free(heads)
			wide := s.alloc(4*h, 0)
			s.free(mixed)
			next := s.alloc(h, 0)
			s.free(wide, x)
			x = next
		}
		s.alloc(4*h, 0)
		s.free(x)
	}
}

// Ours returns what our pool holds in the end.
func (s *Sequence) Ours() (mem.Bytes, error) {
	const pool = 1
	device := sim.New(sim.Config{Capacity: mem.TiB})
	local, err := actors.OpenLocal(device, actors.Options{Inline: true})
	if err == nil {
		err = local.Capture(pool)
	}
	at := map[int]mem.Addr{}
	for _, c := range s.calls {
		if err != nil {
			return 0, err
		}
		if c.size > 0 {
			at[c.block], err = local.MallocIn(c.stream, pool, c.size)
		} else {
			err = local.Release(at[c.block])
		}
	}
	held := device.Used()
	return held, local.Close()
}

// Theirs returns what a pool of PyTorch's allocator holds in the end.
func (s *Sequence) Theirs(name string) (mem.Bytes, error) {
	a, err := baseline.New(name, baseline.Options{Capacity: mem.TiB})
	at := map[int]baseline.Block{}
	for _, c := range s.calls {
		if err != nil {
			return 0, err
		}
		if c.size > 0 {
			at[c.block], err = a.Malloc(c.size, c.stream)
		} else {
			err = a.Free(at[c.block])
		}
	}
	return a.Stats().Reserved, nil
}
