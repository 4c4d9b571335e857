package main

/*
#include "stalloc.h"

static int stalloc_told(const struct stalloc_problem *p, int64_t top, int64_t bound, int64_t units)
{
	return p->progress(p->context, top, bound, units);
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	"stalloc/internal/mem"
	"stalloc/plan/solve"
)

// list is an array of C's, nil where there is none.
func list(p *C.int64_t, n C.size_t) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))
}

// problemOf copies what C asks into a problem of ours.
func problemOf(c *C.struct_stalloc_problem) (*solve.Problem, error) {
	const most = 1 << 24
	if c.lower == nil || c.upper == nil || c.size == nil || c.buffers > most || c.gaps > most ||
		c.gaps > 0 && c.gap == nil {
		return nil, fmt.Errorf("%d buffers and %d gaps: give lower, upper and size of at most 2^24, and their gaps", uint64(c.buffers), uint64(c.gaps))
	}
	n := c.buffers
	lower, upper, size := list(c.lower, n), list(c.upper, n), list(c.size, n)
	p := &solve.Problem{Buffers: make([]solve.Buffer, n), Capacity: mem.Bytes(c.capacity)}
	for i := range p.Buffers {
		p.Buffers[i] = solve.Buffer{Lower: mem.Tick(lower[i]), Upper: mem.Tick(upper[i]),
			Size: mem.Bytes(size[i])}
	}
	if c.alignment != nil {
		for _, a := range list(c.alignment, n) {
			p.Align = append(p.Align, mem.Bytes(a))
		}
	}
	if c.pinned != nil {
		for i, at := range list(c.pinned, n) {
			if at >= 0 {
				p.Pins = append(p.Pins, solve.Pin{Buffer: i, At: mem.Offset(at)})
			}
		}
	}
	for _, g := range unsafe.Slice(c.gap, int(c.gaps)) {
		p.Gaps = append(p.Gaps, solve.Gap{Buffer: int(g.buffer), Lower: mem.Tick(g.lower),
			Upper: mem.Tick(g.upper), From: mem.Bytes(g.from), To: mem.Bytes(g.to)})
	}
	return p, nil
}

// solveFor solves C's problem, and writes where the buffers go.
func solveFor(c *C.struct_stalloc_problem, out *C.struct_stalloc_solution) error {
	if out.offsets == nil {
		return fmt.Errorf("no array for the offsets: give one for %d", uint64(c.buffers))
	}
	p, err := problemOf(c)
	if err != nil {
		return err
	}
	o := solve.Options{Budget: int64(c.budget), Seed: uint64(c.seed)}
	if c.solver != nil {
		o.Solver = C.GoString(c.solver)
	}
	if c.warm != nil {
		for _, at := range list(c.warm, c.buffers) {
			o.Warm = append(o.Warm, mem.Offset(at))
		}
	}
	if c.progress != nil {
		o.Progress = func(s solve.Solution) bool {
			return C.stalloc_told(c, C.int64_t(s.Top), C.int64_t(s.Bound), C.int64_t(s.Units)) == 0
		}
	}
	s, err := solve.Solve(p, o)
	if err != nil {
		return err
	}
	to := list(out.offsets, c.buffers)
	for i, at := range s.Offsets {
		to[i] = int64(at)
	}
	out.top, out.bound, out.units = C.int64_t(s.Top), C.int64_t(s.Bound), C.int64_t(s.Units)
	for _, f := range []struct {
		to *C.int
		is bool
	}{{&out.optimal, s.Optimal}, {&out.fits, s.Fits}, {&out.never, s.Never}} {
		*f.to = 0
		if f.is {
			*f.to = 1
		}
	}
	return nil
}

//export stalloc_solve
func stalloc_solve(problem *C.struct_stalloc_problem, solution *C.struct_stalloc_solution) C.int {
	if problem == nil || solution == nil {
		return errArgument
	}
	return answerAs(errArgument, solution.error, solution.error_size, func() error {
		return solveFor(problem, solution)
	})
}
