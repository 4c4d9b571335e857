package programs

import (
	"math/rand/v2"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// KVGrowth is a cache of keys and values that grows by concatenation (transformers#30536): each
// block is a little larger than the one that ends after it, for each of 40 tokens, twice.
func KVGrowth() *trace.Trace {
	const layers, batch, width, more = 16, 32, 1024, 16
	t := newRecorder("kv_growth")
	size := func(length int) mem.Bytes { return mem.Bytes(batch * length * width * 2) }
	for _, length := range []int{1400, 1300} {
		var kv []int64
		for range 2 * layers {
			kv = append(kv, t.alloc(size(length), 0))
		}
		piece := int64(-1)
		for range 40 {
			t.step()
			made := t.alloc(size(more), 0)
			if piece >= 0 {
				t.free(piece)
			}
			piece = made
			length += more
			for i := range kv {
				longer := t.alloc(size(length), 0)
				t.free(kv[i])
				kv[i] = longer
			}
			logits := t.alloc(batch*32000*4, 0)
			likely := t.alloc(batch*32000*4, 0)
			t.free(logits)
			t.free(likely)
		}
		for _, id := range append(kv, piece) {
			t.free(id)
		}
	}
	return t.end()
}

// gatherer is the program of GatherFlush: what is freed while a stream still works on it ends when
// that stream has come so far, two layers later.
type gatherer struct {
	*recorder
	ending []int64
}

const gathers = mem.StreamID(7)

func (g *gatherer) drop(id int64, stream mem.StreamID) {
	g.record(id, stream)
	g.request(id)
	g.ending = append(g.ending, id)
	if len(g.ending) > 2 {
		g.complete(g.ending[0])
		g.ending = g.ending[1:]
	}
}

// GatherFlush gathers parameters on a side stream, uses, drops and gathers them again, with
// activations that change from step to step (pytorch#65078 and #82001).
func GatherFlush() *trace.Trace {
	const layers, steps = 14, 10
	g := gatherer{recorder: newRecorder("gather_flush")}
	rng := rand.New(rand.NewPCG(1, 1))
	var full [layers]mem.Bytes
	for i := range full {
		full[i] = mem.Bytes(60+4*rng.IntN(50)) * mem.MiB
		g.alloc(full[i]/8, 0) // the shard
		g.alloc(full[i]/8, 0) // its gradient
	}
	for step := range steps {
		g.step()
		var acts []int64
		next := g.alloc(full[0], gathers)
		for i := range full {
			now := next
			if i+1 < layers {
				next = g.alloc(full[i+1], gathers)
			}
			acts = append(acts, g.alloc(mem.Bytes(40+(7*i+13*step)%90)*mem.MiB, 0))
			g.drop(now, 0)
		}
		for i := layers - 1; i >= 0; i-- {
			parameters := g.alloc(full[i], gathers)
			gradient := g.alloc(full[i], 0)
			g.drop(parameters, 0)
			g.drop(gradient, gathers)
			g.free(acts[i])
		}
	}
	for _, id := range g.ending {
		g.complete(id)
	}
	return g.end()
}
