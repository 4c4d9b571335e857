package search

import (
	"slices"

	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
)

// windows are stretches of time of a large instance, where descents ended too high. A descent of
// what lives in a window costs a fraction of a whole one, and ends there about as high: weights
// that are no good in some window are found out cheaply. A descent that passes all and is no good
// shows where one is missing.
type windows struct {
	d    *descents
	all  []*window // what found out weights last comes first
	high int64     // where the best weights end in the worst of them
	part []int32
}

// window is the parts of boxes that live in [from, to).
type window struct {
	boxes    *descent.Boxes // of which IDs are boxes of the instance
	sky      *descent.Descent
	at       []int64
	from, to int32
}

const (
	windowBoxes  = 1 << 12 // begin in a window
	leastWindows = 4       // an instance of fewer is looked at as a whole
	mostWindows  = 8       // the one that has found out nothing for longest makes room
)

// open adds a window around a tick, and measures the best weights in it.
func (v *windows) open(tick int32, best descent.Weights) {
	in := v.d.in
	first, _ := slices.BinarySearch(in.Lo, tick)
	x := &window{from: in.Lo[max(first-windowBoxes/2, 0)], to: in.Ticks}
	if end := first + windowBoxes/2; end < len(in.Lo) {
		x.to = max(in.Lo[end], x.from+1)
	}
	p := &descent.Boxes{Ticks: x.to - x.from}
	for box, size := range in.Size {
		if x.has(in, int32(box)) {
			p.IDs = append(p.IDs, int32(box))
			p.Lo = append(p.Lo, max(in.Lo[box]-x.from, 0))
			p.Hi = append(p.Hi, min(in.Hi[box], x.to)-x.from)
			p.Size = append(p.Size, size)
		}
	}
	x.boxes, x.sky, x.at = p, descent.NewDescent(p), make([]int64, len(p.IDs))
	x.sky.Ask = v.d.w.Do
	v.all = slices.Insert(v.all[:min(len(v.all), mostWindows-1)], 0, x)
	v.measure(best)
}

// has reports whether a box lives in the window.
func (x *window) has(in *dsa.Instance, box int32) bool {
	return in.Lo[box] < x.to && in.Hi[box] > x.from
}

// measure notes how high weights end in the windows.
func (v *windows) measure(best descent.Weights) {
	v.high = 0
	for _, x := range v.all {
		v.high = max(v.high, v.top(x, best))
	}
}

// pass reports whether weights end nowhere higher than the best do.
func (v *windows) pass(weights descent.Weights) bool {
	for i, x := range v.all {
		if v.top(x, weights) > v.high {
			copy(v.all[1:i+1], v.all[:i])
			v.all[0] = x
			return false
		}
	}
	return true
}

// top returns where a descent ends in a window.
func (v *windows) top(x *window, weights descent.Weights) int64 {
	order, ok := v.d.order(x.boxes.IDs, weights)
	if !ok {
		return 1 << 62
	}
	v.part = v.part[:0]
	for _, box := range order {
		k, _ := slices.BinarySearch(x.boxes.IDs, box)
		v.part = append(v.part, int32(k))
	}
	return x.sky.Fill(v.part, 0, 1<<62, x.at)
}
