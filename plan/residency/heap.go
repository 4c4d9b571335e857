package residency

// ranks is a heap with the least rank on top.
type ranks []int32

func (h *ranks) push(r int32) {
	*h = append(*h, r)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up] <= a[i] {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *ranks) pop() int32 {
	a := *h
	top, last := a[0], len(a)-1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := i
		for _, down := range [...]int{2*i + 1, 2*i + 2} {
			if down < last && a[down] < a[least] {
				least = down
			}
		}
		if least == i {
			return top
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}
