// Package fit extrapolates how much memory a training run needs to other sizes of it: of a
// batch, or a sequence.
//
// # Model
//
// The memory is a line in the size: what does not grow (weights, gradients, the optimizer's
// state) and so much for each unit of it, found by least squares. A figure that a search found
// to some tolerance is off by that much, and a line through two of them, at d half-ranges from
// their middle, by d times as much. Three points or more tell how far from a line they are:
// with r the largest distance, the line is taken to be off by r where it was measured and by
// 1.5 r d² outside, which is at least what a parabola through three evenly spaced points would
// differ by. Two points cannot tell that at all.
//
// Where runs of other sizes can be made up, their memory takes the line's place (Along): the peak
// may be in another part of the step at a larger size, so it is a line with a bend.
package fit

import (
	"errors"
	"fmt"
	"math"
)

// Point is the memory, in bytes, that a run of a size needs, found to a tolerance.
type Point struct{ Size, Memory, Tolerance float64 }

// Line is memory by size: a line, or what Along was given.
type Line struct {
	Fixed     float64 // bytes that do not grow
	Each      float64 // bytes for each unit of size
	Residual  float64 // the largest distance of a point, in bytes
	Tolerance float64 // the largest of a point
	Checked   bool    // three sizes or more: the residual says something

	middle, half float64                    // of the sizes that were measured
	along        func(size float64) float64 // nil: a line
}

// Through returns the line through the points. It needs two sizes.
func Through(points []Point) (Line, error) {
	var l Line
	n, low, high := float64(len(points)), math.Inf(1), math.Inf(-1)
	sizes := make(map[float64]bool)
	var x, y float64
	for _, p := range points {
		x, y = x+p.Size/n, y+p.Memory/n
		low, high = min(low, p.Size), max(high, p.Size)
		l.Tolerance = max(l.Tolerance, p.Tolerance)
		sizes[p.Size] = true
	}
	if len(sizes) < 2 {
		return l, errors.New("one size alone does not tell what grows: record two or three")
	}
	var xx, xy float64
	for _, p := range points {
		xx += (p.Size - x) * (p.Size - x)
		xy += (p.Size - x) * (p.Memory - y)
	}
	l.Each = xy / xx
	l.Fixed = y - l.Each*x
	l.middle, l.half, l.Checked = (low+high)/2, (high-low)/2, len(sizes) > 2
	for _, p := range points {
		l.Residual = max(l.Residual, math.Abs(p.Memory-l.At(p.Size)))
	}
	return l, nil
}

// Along is Through for memory that is known at each size, by how it was made up: off it is by
// its distances from the points. memory never falls with the size.
func Along(points []Point, memory func(size float64) float64) (Line, error) {
	l, err := Through(points)
	if err != nil {
		return l, err
	}
	known := make(map[float64]float64)
	l.along = func(size float64) float64 {
		if _, ok := known[size]; !ok {
			known[size] = memory(size)
		}
		return known[size]
	}
	l.Residual = 0
	for _, p := range points {
		l.Residual = max(l.Residual, math.Abs(p.Memory-l.At(p.Size)))
	}
	return l, nil
}

// At is the memory that a run of a size needs.
func (l Line) At(size float64) float64 {
	if l.along != nil {
		return l.along(size)
	}
	return l.Fixed + l.Each*size
}

// Tangent is what does not grow, and what each unit of size takes, around a size.
func (l Line) Tangent(size float64) (fixed, each float64) {
	each = l.At(size+1) - l.At(size)
	return l.At(size) - each*size, each
}

// Error is by how much At may be off, in bytes.
func (l Line) Error(size float64) float64 {
	d := math.Abs(size-l.middle) / l.half
	err := l.Tolerance * max(1, d)
	if d > 1 {
		return err + 1.5*l.Residual*d*d
	}
	return err + l.Residual
}

// Range is the largest size that fits, and between what it lies.
type Range struct{ Best, Low, High int64 }

const (
	// Farthest is how many times the largest size that was measured a size may be told of.
	Farthest = 16
	// roughest is the share of the memory by which a line may be off and still tell anything.
	roughest = 0.1
)

// Largest returns the largest size, a multiple of unit, whose run fits in so many bytes. Best
// and Low are 0 where not even one unit does. It fails where the line cannot tell.
func (l Line) Largest(capacity float64, unit int64) (Range, error) {
	end := l.middle + l.half
	// What is measured to grow by less than it may be off by is not known to grow.
	if grown := l.Each * 2 * l.half; grown <= 2*l.Tolerance+l.Residual {
		return Range{}, errors.New("a larger size takes no more memory, or hardly: record sizes farther apart, or look whether all are of one size")
	}
	if l.Fixed < -l.Error(0) {
		return Range{}, errors.New("without anything that grows there would be less than nothing: these are no sizes of one program, or it does not grow in a line")
	}
	largest := func(memory func(float64) float64) int64 {
		low, high := int64(0), int64(end*Farthest)/unit+1
		for low < high { // the memory grows with the size
			if middle := low + (high-low+1)/2; memory(float64(middle*unit)) <= capacity {
				low = middle
			} else {
				high = middle - 1
			}
		}
		return low * unit
	}
	r := Range{Best: largest(l.At)}
	if float64(r.Best) > end*Farthest {
		return Range{}, fmt.Errorf("more than %d times the largest recorded size would fit: record larger ones", Farthest)
	}
	if off := l.Error(float64(r.Best)); off > roughest*capacity {
		return Range{}, fmt.Errorf("a line through these is off by %.0f %% of the capacity there: record sizes nearer to what fits", 100*off/capacity)
	}
	r.Low = largest(func(size float64) float64 { return l.At(size) + l.Error(size) })
	fits := func(size float64) bool { return l.At(size)-l.Error(size) <= capacity }
	for r.High = r.Best; fits(float64(r.High + unit)); r.High += unit {
		if float64(r.High) > 2*float64(r.Best)+2*float64(unit)+end {
			return Range{}, errors.New("it may be off by as much as it grows: record sizes nearer to what fits")
		}
	}
	return r, nil
}
