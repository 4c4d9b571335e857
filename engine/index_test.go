package engine

import (
	"math/rand/v2"
	"testing"
)

func TestTableAgainstMap(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tab, model := newTable(4), map[uint64]uint32{}
		for i := range 20000 {
			key := rng.Uint64N(300) // few keys: long clusters, many deletes
			switch rng.IntN(3) {
			case 0:
				tab.put(key, uint32(i+1))
				model[key] = uint32(i + 1)
			case 1:
				_, had := model[key]
				if tab.del(key) != had {
					t.Fatalf("seed %d: del(%d) does not know whether it was there", seed, key)
				}
				delete(model, key)
			default:
				if got := tab.get(key); got != model[key] {
					t.Fatalf("seed %d: get(%d) = %d, want %d", seed, key, got, model[key])
				}
			}
			if tab.used != len(model) {
				t.Fatalf("seed %d: %d keys, want %d", seed, tab.used, len(model))
			}
		}
	}
}

func TestPageBitsFloor(t *testing.T) {
	for _, size := range []int{1, 64, 65, 5000, 300000} {
		rng := rand.New(rand.NewPCG(uint64(size), 3))
		b, model := newPageBits(size), make([]bool, size)
		for range 3000 {
			x := rng.IntN(size)
			if model[x] = !model[x]; model[x] {
				b.set(uint32(x))
			} else {
				b.reset(uint32(x))
			}
			x = rng.IntN(size)
			want := x
			for want >= 0 && !model[want] {
				want--
			}
			got, ok := b.floor(uint32(x))
			if ok != (want >= 0) || ok && got != uint32(want) {
				t.Fatalf("size %d: floor(%d) = %d, %t, want %d", size, x, got, ok, want)
			}
		}
	}
}

func TestSizeClassesAreOrdered(t *testing.T) {
	last := -1
	for n := unit(1); n < 1<<31; n += 1 + n/1000 {
		c := sizeClass(n)
		if c < last || c >= classes {
			t.Fatalf("%d units are in class %d of %d, after class %d", n, c, classes, last)
		}
		last = c
	}
}

// TestBestFit compares both treaps with a list.
func TestBestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	nodes := make([]run, 400)
	var s sizeIndex
	var root uint32
	in := map[uint32]bool{}
	for range 20000 {
		n := uint32(1 + rng.IntN(len(nodes)-1))
		if in[n] {
			s.drop(nodes, n)
			remove(nodes, &root, n, byAddr)
			delete(in, n)
		} else {
			start := unit(n) * 100000
			nodes[n].setRange(start, start+1+unit(rng.Uint64N(1<<rng.UintN(16))))
			s.add(nodes, n)
			insert(nodes, &root, n, byAddr)
			in[n] = true
		}
		want, below := uint32(0), uint32(0)
		size, at := unit(rng.Uint64N(1<<rng.UintN(16))), unit(rng.Uint64N(uint64(len(nodes))*100000))
		for x := range in {
			c := &nodes[x]
			if c.size() >= size && (want == 0 || c.key[bySize] < nodes[want].key[bySize]) {
				want = x
			}
			if c.start() <= at && x > below {
				below = x
			}
		}
		if got := s.bestFit(nodes, size); got != want {
			t.Fatalf("best fit of %d units: run %d, want %d", size, got, want)
		}
		if got := atMost(nodes, root, uint64(at), byAddr); got != below {
			t.Fatalf("run at or below %d: %d, want %d", at, got, below)
		}
	}
}
