// Package without names what the allocator can do without, one mechanism at a time. Each can be
// switched off in a replay, so that anyone can measure what it is worth (make constants). Of these,
// users have settings for plans, stitching and waiting alone (STALLOC_CONF).
package without

import (
	"fmt"
	"strings"
)

// Set is a set of mechanisms that are switched off.
type Set uint32

const (
	Plans  Set = 1 << iota // schedules of steps that repeat
	Small                  // small requests have an arena of their own
	Stitch                 // free handles are mapped a second time
	Reuse                  // a view stays mapped for later blocks
	Ends                   // a view's block begins and ends in parts of handles
	Wait                   // requests wait for blocks that other streams are about to be done with
	Lend                   // streams lend idle memory to others
)

var texts = [...]string{
	"plans: steps that repeat, request for request, are served from a schedule",
	"small: requests of at most 64 KiB have an arena of their own",
	"stitch: a block that no gap holds is stitched from free handles",
	"reuse: a stitched view stays mapped, and serves later blocks",
	"ends: a stitched block begins and ends in free parts of handles that others use",
	"wait: requests wait for blocks that other streams are about to be done with, rather than have memory made",
	"lend: before memory is made for a stream, other persistent streams lend it what they have idle",
}

// Has reports whether one of them is off.
func (s Set) Has(x Set) bool { return s&x != 0 }

// Texts says in a line each what there is: its name, a colon, and what it does.
func Texts() []string { return texts[:] }

// Parse reads a name.
func Parse(name string) (Set, error) {
	var names []string
	for i, text := range texts {
		known, _, _ := strings.Cut(text, ":")
		if known == name {
			return 1 << i, nil
		}
		names = append(names, known)
	}
	return 0, fmt.Errorf("%q is no mechanism: choose from %s", name, strings.Join(names, ", "))
}
