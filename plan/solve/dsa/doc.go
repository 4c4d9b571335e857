// Package dsa states the problem of dynamic storage allocation (Garey and Johnson's SR2): buffers
// with sizes and lives, of which the offsets are wanted.
//
// A Problem is what is asked, in the units of whoever asks. An Instance is the same on compressed
// time, the form in which solvers read it. Check says whether offsets solve a problem, with a sweep
// of its own that shares no code with any solver.
package dsa
