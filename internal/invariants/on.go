//go:build invariants || race

// Package invariants says whether the expensive checks run: recounting a whole
// state after every event. They are compiled in under the tag invariants and
// under the race detector, and cost nothing otherwise.
package invariants

// Enabled is true when the expensive checks are compiled in.
const Enabled = true
