// Package floors keeps the module's folders in order. Each folder stands on a
// floor and imports only what lies below it, so that every piece can be read,
// tested and replaced knowing nothing of what is built on top:
//
//	7  examples, tests
//	6  cshim, cmd, report,    what users load and run
//	   replay, score, tune, and
//	   the module's own package
//	5  actors                 what callers ask of a device
//	4  actors/pool, stream,   the actors, strangers to each other
//	   planner
//	3  actors/inline, host,   goroutines, clocks and the driver begin here
//	   step, device, region,
//	   cuda, live
//	2  engine, baseline       pure
//	1  plan, stream, trace    pure, and strangers to each other
//	0  internal               pure
//
// Pure means: an event in, a decision out. A pure package touches no clock, lock, file, network, C
// or unsafe pointer, starts no goroutine and draws random numbers only from a seed it was given, so
// a state can be replayed exactly. What little input and output the pure floors need is listed,
// file by file and with its reason, in Allowed; an entry that is no longer needed is a violation
// too.
//
// Tests may use the whole standard library, packages of their own floor, and
// what lies in tests for them.
package floors

// Floor is one row of the table.
type Floor struct {
	Folder string
	Level  int
}

// Rules is what Check holds a module to.
type Rules struct {
	Module string
	Floors []Floor // the longest folder that matches a package decides
	Pure   int     // floors up to this one are pure
	// Strangers are folders of one floor that do not import each other.
	Strangers []string
	Help      string // the folder whose packages every test may use

	// Impure are the imports, with all below them, that a pure package
	// does without.
	Impure []string
	// Banned are imports nobody may have, with the reason.
	Banned map[string]string
	// Allowed excuses single files of pure packages: file → imports.
	Allowed map[string]Allowance
}

// Allowance lets one file of a pure package import what it otherwise may not.
type Allowance struct {
	Imports []string
	Why     string
}

// Stalloc is the table of this module.
var Stalloc = Rules{
	Module: "stalloc",
	Floors: []Floor{
		{"internal", 0},
		{"plan", 1}, {"stream", 1}, {"trace", 1},
		{"engine", 2}, {"baseline", 2},
		{"actors/inline", 3}, {"actors/host", 3}, {"actors/step", 3}, {"actors/device", 3},
		{"actors/region", 3},
		{"cuda", 3}, {"live", 3},
		{"actors/pool", 4}, {"actors/stream", 4}, {"actors/planner", 4},
		{"actors", 5},
		{".", 6}, {"cshim", 6}, {"replay", 6}, {"cmd", 6}, {"report", 6}, {"score", 6}, {"tune", 6},
		{"examples", 7}, {"tests", 7},
	},
	Strangers: []string{"actors/pool", "actors/stream", "actors/planner"},
	Pure:      2,
	Help:      "tests",
	Impure: []string{
		"C", "unsafe", "time", "sync", "os", "net", "syscall", "runtime", "context", "log",
		"crypto/rand", "hash/maphash",
	},
	Banned: map[string]string{
		"github.com/asynkron/protoactor-go/remote":  "brings grpc into the training process",
		"github.com/asynkron/protoactor-go/cluster": "brings grpc into the training process",
	},
	Allowed: map[string]Allowance{
		"internal/output/output.go": {[]string{"os", "syscall"},
			"writes the files that users name"},
		"internal/output/limited.go": {[]string{"os", "runtime", "syscall", "unsafe"},
			"a write beyond the limit of file sizes must not end the process"},
		"plan/atomic.go": {[]string{"os", "syscall"},
			"a plan file is opened without waiting for the writer of a pipe"},
		"trace/reader.go": {[]string{"os"}, "opens the file a trace is read from"},
	},
}

// TagSets are the ways the module is built; a file that only one of them
// compiles is held to the rules as well.
var TagSets = [][]string{{}, {"invariants"}, {"race"}, {"gpu"}}
