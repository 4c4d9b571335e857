// Package report makes one self-contained HTML page of a recorded run: where every
// block lay, what made the peak, and what other allocators would have reserved.
//
// # Idea
//
// A recording fixes what the program asked for and when. Load replays it through every
// allocator on the simulated device and keeps three things: the load and what each
// allocator held, in buckets of events; the blocks of the steps around the peak, with
// their address in each allocator whose addresses are memory; and a summary. WriteHTML
// puts the summary into a page as text, which reads without scripts, and the rest as
// packed columns, which the page's script draws.
//
//	Load ── trace.ReadFile ── replay.Follow ×4 ── Data ── WriteHTML
//	     ├─ plan.ReadFile ── one arena a stream ─┤
//	     └─ a live run's log ── its curves ──────┘
//
// # Addresses
//
// Addresses of a replay mean something only as differences, and have gaps that were never
// memory. Bytes that never had memory in what is drawn are left out (places.go).
//
// The page never asks a network for anything. Curves are drawn by uPlot, bundled
// (assets/uplot); the blocks by assets/map.js on a canvas of its own.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// Options choose what is reported, and how.
type Options struct {
	Device   int       // of a snapshot; negative for the first that has events
	Capacity mem.Bytes // of the simulated device
	Warm     bool      // stalloc: the second of two starts
	Quick    bool      // leave out the two figures, which take some ten replays of each allocator
	// of these at most are drawn, but for the step of the peak; 0 for DefaultBlocks
	Blocks int
	// Progress, unless it is nil, is told what is being done.
	Progress func(what string)
}

// DefaultBlocks keeps the page well below ten megabytes.
const DefaultBlocks = 200_000

// Data is what a page shows.
type Data struct {
	Name   string `json:"name"`
	Header string `json:"header"` // the recording's own first line
	Kind   Kind   `json:"kind"`
	Lost   string `json:"lost,omitempty"` // what a snapshot's ring had lost, in words
	Events int    `json:"events"`
	Blocks int    `json:"blocks"` // of the whole recording

	Steps      []Step      `json:"steps"`
	Phases     []string    `json:"phases"`
	Marked     bool        `json:"marked"` // phases are the recording's own marks
	Stacks     []string    `json:"stacks,omitempty"`
	Frames     []string    `json:"frames,omitempty"`  // of each stack, the one to name
	Modules    []string    `json:"modules,omitempty"` // and the module that it is in
	Allocators []Allocator `json:"allocators"`
	Capacity   mem.Bytes   `json:"capacity"` // of the simulated device
	// what the two figures come to, in sentences
	Verdict     []string  `json:"verdict"`
	NativeWaste string    `json:"native_waste,omitempty"` // what native wastes, and why
	Findings    []Finding `json:"findings,omitempty"`
	Peak        Peak      `json:"peak"`
	Worth       []Worth   `json:"worth"`
	Misses      []Miss    `json:"misses"`
	Reasons     []string  `json:"reasons"` // by number, as in Window.Served
	Notes       []Note    `json:"notes,omitempty"`

	Curve  Curve  `json:"-"`
	Window Window `json:"-"`
}

// Kind says what was read.
type Kind string

// The kinds.
const (
	Recording Kind = "recording" // a trace or a snapshot
	Planned   Kind = "plan"      // a plan file: nothing is replayed
	Live      Kind = "live"      // a run's own log, which knows no blocks
)

// Step is a step of the recording, by events.
type Step struct {
	Name  string    `json:"name"`
	Begin int       `json:"begin"`
	End   int       `json:"end"` // the event after its last
	Peak  mem.Bytes `json:"peak"`

	peakAt int
}

// Allocator is what one allocator made of the run.
type Allocator struct {
	Name          string    `json:"name"`
	Reserved      mem.Bytes `json:"reserved"` // at the peak
	Fragmentation float64   `json:"fragmentation"`
	Hits          int64     `json:"hits"`
	Misses        int64     `json:"misses"`
	Requests      int64     `json:"requests"`
	Calls         int64     `json:"calls"`
	// Driver time is modelled: that of the set-up and the first steps, and that of the steady
	// part, which took SteadyMillis when it was recorded.
	FirstDriverMillis  float64 `json:"first_driver_ms"`
	SteadyDriverMillis float64 `json:"steady_driver_ms"`
	SteadyMillis       float64 `json:"steady_ms"`
	Full               bool    `json:"full"` // the device was full and the run ended there
	// FitsIn and FullSpeedIn are replay.Sizes; zero where nobody looked for them.
	FitsIn      mem.Bytes `json:"fits_in,omitempty"`
	FullSpeedIn mem.Bytes `json:"full_speed_in,omitempty"`
}

// ErrOneDevice says that there is no device to choose.
var ErrOneDevice = errors.New("--device is for snapshots and logs, recordings and plans are of one device: leave it out")

// Load reads the file at path, a recording or a plan, and makes a report of it.
func Load(ctx context.Context, path string, o Options) (*Data, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Progress("reading " + path)
	head, err := headOf(path)
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(head, planMagic):
		if o.Device >= 0 {
			return nil, fmt.Errorf("%s: %w", path, ErrOneDevice)
		}
		return loadPlan(path)
	case isLive([]byte(head)):
		return loadLive(path, o.Device)
	}
	options := []trace.Option{trace.Frames()}
	if o.Device >= 0 {
		options = append(options, trace.Device(o.Device))
	}
	tr, err := trace.ReadFile(path, options...)
	if err != nil {
		return nil, err
	}
	if o.Device >= 0 && tr.Device != o.Device {
		return nil, fmt.Errorf("%s: %w", path, ErrOneDevice)
	}
	d, err := Make(ctx, tr, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// headOf returns the first bytes of a file; fewer, of one that is shorter.
func headOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(file, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return string(head[:n]), err
}

// Make makes a report of a recording.
func Make(ctx context.Context, tr *trace.Trace, o Options) (*Data, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Blocks == 0 {
		o.Blocks = DefaultBlocks
	}
	l := newLedger(tr)
	if len(l.blocks) == 0 {
		return nil, errors.New("no request for memory in it: record a run that makes some")
	}
	o.Progress(fmt.Sprintf("replaying %d requests through %s", len(l.blocks),
		strings.Join(replay.Names(), ", ")))
	runs, err := replayAll(ctx, tr, l, o)
	if err != nil {
		return nil, err
	}
	if !o.Quick {
		o.Progress("looking for the smallest devices that it fits in, and runs at full speed in")
		if err := findSizes(ctx, tr, runs, o); err != nil {
			return nil, err
		}
	}
	d := &Data{
		Name: tr.Name, Header: tr.Header, Kind: Recording, Lost: lost(tr.Skipped),
		Capacity: o.Capacity,
		Events:   len(tr.Events), Blocks: len(l.blocks),
		Steps: l.steps, Phases: l.phases, Marked: l.marked,
		Reasons: reasons[:],
	}
	for _, r := range runs {
		d.Allocators = append(d.Allocators, r.summary())
	}
	ours := runs[len(runs)-1]
	d.NativeWaste = l.wasted(runs[0], o.Capacity)
	why := l.explain(ours)
	d.Misses = countMisses(l, why)
	d.Peak = l.atPeak(tr.Stacks)
	d.Findings = l.findings(tr.Stacks, idleStates(tr))
	d.Worth, d.Verdict = worth(d), verdict(d)
	d.Curve = l.curve(runs)
	d.Window = l.window(tr.Stacks, runs, why, o.Blocks)
	if tr.Stacks != nil {
		d.Stacks = tr.Stacks.Texts()
		for _, s := range d.Stacks {
			d.Frames, d.Modules = append(d.Frames, frameOf(s)), append(d.Modules, moduleOf(s))
		}
	}
	return d, nil
}

// lost says what a snapshot's ring had lost.
func lost(s trace.Skipped) string {
	if s.Frees+s.Blocks+s.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("The snapshot's history had overflowed: %d frees without their request, %d blocks without one and %d frees are missing. Record with a larger max_entries.", s.Frees, s.Blocks, s.Lost)
}
