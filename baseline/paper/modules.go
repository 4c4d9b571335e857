package paper

import (
	"slices"

	"stalloc/internal/mem"
	"stalloc/trace"
)

const (
	outside     = -1 // the module of a request of none
	runLength   = 24 // requests of equal sizes that are no chance
	farthest    = 1 << 13
	leastZones  = 8
	noneMatches = -1
)

// tell tells the requests of expert modules from the sizes: what steps share lies outside. It
// returns the module of each request of the recording, by how many shared requests of its step come
// before, and nil if the recording does not tell.
func (p *Profile) tell() []int32 {
	steps := p.sequences()
	second := steps[1]
	shared := make([]bool, len(second.sizes))
	for k := 2; k < len(steps); k++ {
		match, zones := align(second.sizes, steps[k].sizes)
		if k == 2 && zones < leastZones {
			return nil
		}
		found := make([]bool, len(shared))
		for _, m := range match {
			if m != noneMatches {
				found[m] = true
			}
		}
		for i := range shared {
			shared[i] = (k == 2 || shared[i]) && found[i]
		}
	}
	rank, inside := make([]int32, len(shared)), make(map[int32]bool)
	next := int32(0)
	for i, s := range shared {
		rank[i] = next
		if s {
			next++
		} else {
			inside[next] = true
		}
	}
	modules := slices.Repeat([]int32{outside}, p.all())
	for _, step := range steps {
		match, _ := align(second.sizes, step.sizes)
		module := int32(0)
		for i, m := range match {
			n := step.numbers[i]
			if m != noneMatches && shared[m] {
				module = rank[m] + 1
			} else if inside[module] && !p.lasts(n) {
				modules[n] = module
			}
		}
	}
	return modules
}

// lasts reports whether a request's block outlives the profile: no expert's activation does.
func (p *Profile) lasts(n int) bool {
	return n < len(p.requests) && p.requests[n].step == 0 && p.requests[n].dead == never
}

// all is the number of requests of the recording.
func (p *Profile) all() (n int) {
	for i := range p.tr.Events {
		if p.tr.Events[i].Kind == trace.Alloc {
			n++
		}
	}
	return n
}

// sequence is the requests of a step that may be planned.
type sequence struct {
	sizes   []mem.Bytes
	numbers []int // among all requests
}

// sequences returns those of all steps, the set-up left out.
func (p *Profile) sequences() []sequence {
	var all []sequence
	n, event := 0, 0
	for _, step := range p.tr.Steps() {
		for ; event < step[0]; event++ {
			if p.tr.Events[event].Kind == trace.Alloc {
				n++
			}
		}
		var s sequence
		for ; event < step[1]; event++ {
			e := &p.tr.Events[event]
			if e.Kind != trace.Alloc {
				continue
			}
			if e.Size > cellSize {
				s.sizes, s.numbers = append(s.sizes, e.Size), append(s.numbers, n)
			}
			n++
		}
		all = append(all, s)
	}
	return all
}

// align walks along two sequences of sizes. Where they differ it goes on at the nearest run of
// runLength sizes that both have. It returns for each of b the place in a that it matches, and
// in how many zones the two differ.
func align(a, b []mem.Bytes) (match []int, zones int) {
	match = slices.Repeat([]int{noneMatches}, len(b))
	hashes := runs(a)
	others := runs(b)
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] == b[j] {
			match[j] = i
			i, j = i+1, j+1
			continue
		}
		zones++
		first := make(map[uint64]int)
		for at := min(i+farthest, len(hashes)) - 1; at >= i; at-- {
			first[hashes[at]] = at
		}
		nearest, toI, toJ := 2*farthest, -1, -1
		for at := j; at < min(j+farthest, len(others)) && at-j < nearest; at++ {
			from, ok := first[others[at]]
			if ok && from-i+at-j < nearest &&
				slices.Equal(a[from:from+runLength], b[at:at+runLength]) {
				nearest, toI, toJ = from-i+at-j, from, at
			}
		}
		if toI < 0 {
			break
		}
		i, j = toI, toJ
	}
	return match, zones
}

// runs returns a hash of each run of runLength sizes, by where it begins.
func runs(sizes []mem.Bytes) []uint64 {
	var hashes []uint64
	for i := 0; i+runLength <= len(sizes); i++ {
		h := uint64(14695981039346656037) // FNV-1a
		for _, s := range sizes[i : i+runLength] {
			h = (h ^ uint64(s)) * 1099511628211
		}
		hashes = append(hashes, h)
	}
	return hashes
}
