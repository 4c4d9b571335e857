package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/trace"
	"stalloc/tune"
)

// tuneResult is a point of the front of settings.
type tuneResult struct {
	versioned
	Point      int     `json:"point"`
	HandlePart int64   `json:"handle_part"`
	HandleMost int64   `json:"handle_most_bytes"`
	GrowPart   int64   `json:"grow_part"`
	SmallLimit int64   `json:"small_limit_bytes"`
	Waste      float64 `json:"waste"`
	Device     float64 `json:"device"`
	Driver     float64 `json:"driver"`
	FirstEight float64 `json:"first_eight"`
	NoisyWaste float64 `json:"noisy_waste"`
	Conf       string  `json:"conf"`
}

type tuneFlags struct {
	replays  int
	jobs     int
	noise    float64
	seed     uint64
	capacity size
	bounds   []string
	svg      string
	format   format
}

func newTune() *cobra.Command {
	flags := tuneFlags{
		replays: 300, jobs: runtime.NumCPU(), noise: 0.01, seed: 1,
		capacity: size(80 * mem.GiB), format: asTable,
	}
	var about strings.Builder
	for _, s := range tune.Settings {
		fmt.Fprintf(&about, "\n  %-12s %s", s.Key, s.About)
	}
	cmd := &cobra.Command{
		Use:   "tune [flags] TRACE...",
		Short: "Find settings for a program: less waste, or less time in the driver",
		Long: `Tune replays recordings with other values of the settings that weigh memory
against the driver's time, and prints the Pareto front: the points that no other
beats in everything. Each has a line for STALLOC_CONF; the defaults are shown
beside them. Given several recordings, all figures are averages over them: the
front for programs like these. Interrupted, it prints the best so far.

The settings that it varies:` + about.String(),
		Example: `  stalloc tune run.csv.gz
  stalloc tune --replays 600 --bound handle_part=128..2048 --svg front.svg run.csv.gz
  STALLOC_CONF=handle_part:768,grow_part:4 python train.py`,
		Args:              atLeastOneTrace,
		ValidArgsFunction: traceFiles,
		RunE:              flags.run,
	}
	f := cmd.Flags()
	f.IntVar(&flags.replays, "replays", flags.replays,
		"at most this many: two for each recording and point, or one with --noise 0")
	f.IntVar(&flags.jobs, "jobs", flags.jobs, "replays at once; the result is the same")
	f.Float64Var(&flags.noise, "noise", flags.noise,
		"share of the requests to insert or leave out in every second replay")
	f.Uint64Var(&flags.seed, "seed", flags.seed, "seed of the search and the noise")
	f.Var(&flags.capacity, "capacity", "memory of the simulated device"+amounts)
	f.StringArrayVar(&flags.bounds, "bound", nil,
		"vary a setting only within these, as in `KEY=LEAST..MOST`")
	f.StringVar(&flags.svg, "svg", "", "draw the front into this `file`")
	addFormat(f, &flags.format)
	return cmd
}

func (f *tuneFlags) run(cmd *cobra.Command, paths []string) error {
	if f.replays < 1 || f.jobs < 1 {
		return fmt.Errorf("--replays %d with --jobs %d: give 1 or more of both", f.replays, f.jobs)
	}
	if !(f.noise >= 0 && f.noise <= 1) {
		return fmt.Errorf("--noise %v is no share: give a number from 0 to 1, such as 0.01",
			f.noise)
	}
	bounds, err := parseBounds(f.bounds)
	if err != nil {
		return err
	}
	var svg *output.File
	if f.svg != "" {
		if svg, err = create(cmd, "--svg", f.svg); err != nil {
			return err
		}
		defer svg.Close()
	}
	var traces []*trace.Trace
	s := newSession(cmd, f.format, 1)
	s.eachTrace(paths, 0, func(_ string, tr *trace.Trace) { traces = append(traces, tr) })
	if len(traces) < len(paths) {
		return s.finish(nil, "")
	}
	front, defaults, err := tune.Run(s.ctx, traces, tune.Options{
		Replays: f.replays, Noise: f.noise, Seed: f.seed, Workers: f.jobs,
		Capacity: mem.Bytes(f.capacity), Bounds: bounds,
	}, s.progress.begin("replays"))
	if err != nil {
		s.fail(err)
		return s.finish(nil, "")
	}
	header := []any{"point"}
	for _, name := range tune.Names {
		header = append(header, name)
	}
	t := newTable(1, append(header, "STALLOC_CONF")...)
	if defaults.Values == tune.Defaults() {
		f.show(s, t, -1, defaults)
	}
	for i, p := range front {
		f.show(s, t, i, p)
	}
	if svg != nil {
		if err := drawTuned(svg, front); err != nil {
			s.fail(fmt.Errorf("--svg %s: %w; choose another file", f.svg, err))
		}
	}
	notes := ""
	for k, name := range tune.Names {
		notes += name + ": " + tune.Abouts[k] + "\n"
	}
	return s.finish(t, notes)
}

func (f *tuneFlags) show(s *session, t table.Writer, i int, p tune.Point) {
	v, o := p.Values, p.Objectives
	s.emit(tuneResult{formatVersion, i, v[0], v[1], v[2], v[3],
		o[0], o[1], o[2], o[3], o[4], v.Conf()})
	row := table.Row{fmt.Sprint(i)}
	if i < 0 {
		row[0] = "defaults"
	}
	for _, x := range o {
		row = append(row, hundredths(x))
	}
	t.AppendRow(append(row, v.Conf()))
}

func hundredths(x float64) string { return fmt.Sprintf("%.3f %%", x) }

func drawTuned(svg *output.File, front []tune.Point) error {
	values := make([][]float64, len(front))
	for i, p := range front {
		values[i] = p.Objectives[:]
	}
	if err := drawFront(io.Writer(svg), tune.Names[:], values, hundredths); err != nil {
		return err
	}
	return svg.Commit()
}

// parseBounds reads KEY=LEAST..MOST, amounts of memory among them.
func parseBounds(texts []string) (map[string][2]int64, error) {
	bounds := map[string][2]int64{}
	for _, text := range texts {
		key, ends, ok := strings.Cut(text, "=")
		least, most, also := strings.Cut(ends, "..")
		a, errA := mem.ParseBytes(least)
		b, errB := mem.ParseBytes(most)
		if !ok || !also || errA != nil || errB != nil {
			return nil, fmt.Errorf("--bound %q is not KEY=LEAST..MOST, "+
				"such as handle_part=128..2048 or handle_most=4MiB..64MiB", text)
		}
		bounds[key] = [2]int64{int64(a), int64(b)}
	}
	return bounds, nil
}
