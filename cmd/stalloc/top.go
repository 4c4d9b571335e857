package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"stalloc/live/metrics"
	"stalloc/live/page"
)

// topResult is what top prints of a device for programs.
type topResult struct {
	PID      int     `json:"pid"`
	Rank     string  `json:"rank,omitempty"`
	Command  string  `json:"command"`
	Device   int     `json:"device"`
	At       string  `json:"at"`
	Waste    float64 `json:"waste"`
	HitShare float64 `json:"recent_hit_share"`
	Driver   float64 `json:"recent_driver_share"`
	StepUS   float64 `json:"recent_step_us"`
	page.Stats
}

type topFlags struct {
	pid      int
	once     bool
	interval time.Duration
	metrics  int
	format   format
	folder   string
}

func newTop() *cobra.Command {
	flags := topFlags{format: asTable, folder: page.Folder}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what running processes do with GPU memory",
		Long: `Top shows each process that runs with stalloc, and each of its devices: the peak
load, what is reserved, how much of its peak was never needed; and of the last
second or two the requests that a plan served, the time in the driver and the time
of a step. It reads a page that the process keeps in /dev/shm and costs it nothing.

On a terminal it refreshes; elsewhere, and with --once, it prints once. With
--metrics it answers Prometheus at 127.0.0.1:PORT/metrics until it is interrupted.`,
		Example: `  stalloc top
  stalloc top --pid 4242 --once --format json
  stalloc top --metrics 9400`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	f := cmd.Flags()
	f.IntVar(&flags.pid, "pid", 0, "show this process alone (default all)")
	f.BoolVar(&flags.once, "once", false, "print once")
	f.DurationVar(&flags.interval, "interval", time.Second, "between two looks, at least 100ms")
	f.IntVar(&flags.metrics, "metrics", 0, "answer Prometheus on this `port` of 127.0.0.1")
	f.StringVar(&flags.folder, "folder", flags.folder, "where the pages are")
	addFormat(f, &flags.format)
	complete(cmd, map[string][]string{"format": formats})
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command) error {
	if f.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: pages change ten times a second, give at least 100ms", f.interval)
	}
	if f.metrics < 0 || f.metrics > 1<<16-1 {
		return fmt.Errorf("--metrics %d is no port: give a number from 1 to 65535", f.metrics)
	}
	if f.metrics > 0 {
		return f.answer(cmd)
	}
	out := cmd.OutOrStdout()
	earlier := map[string]page.Sample{}
	for {
		processes, err := f.read()
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %v\n", err)
			return errFailed
		}
		if f.once || f.format != asTable || !forPeople(out) {
			return f.print(newSession(cmd, f.format, 0), processes)
		}
		t := topTable(processes, earlier)
		fmt.Fprintf(out, "\033[H\033[2J%s\n%s", t.Render(), topNotes)
		select {
		case <-cmd.Context().Done():
			return nil // how one leaves
		case <-time.After(f.interval):
		}
	}
}

func (f *topFlags) read() ([]page.Process, error) {
	if f.pid == 0 {
		return page.List(f.folder)
	}
	p, err := page.Of(f.folder, f.pid)
	return []page.Process{p}, err
}

// answer serves Prometheus until it is interrupted.
func (f *topFlags) answer(cmd *cobra.Command) error {
	server, err := metrics.Serve(f.metrics, func() []page.Process {
		processes, _ := f.read() // none that can be read
		return processes
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: http://%s/metrics\n", server.Addr())
	<-cmd.Context().Done()
	return server.Close()
}

func (f *topFlags) print(s *session, processes []page.Process) error {
	if len(processes) == 0 {
		fmt.Fprintln(s.errs, "stalloc: no process here runs with stalloc, or none of yours")
		return s.finish(nil, "")
	}
	if s.records == nil {
		return s.finish(topTable(processes, nil), topNotes)
	}
	for _, p := range processes {
		for _, d := range p.Devices {
			r := page.Between(d.Before, d.Now)
			s.emit(topResult{
				PID: p.PID, Rank: p.Rank(), Command: p.Command(), Device: d.Ordinal, At: d.Now.At.UTC().Format(time.RFC3339Nano),
				Waste: d.Now.Waste(), HitShare: r.HitShare, Driver: r.Driver, StepUS: float64(r.Step.Nanoseconds()) / 1e3, Stats: d.Now.Stats,
			})
		}
	}
	return s.finish(nil, "")
}

const topNotes = "waste, hits of the last requests and driver's share of the time in %\n"

// topTable has a row for each device of each process. Rates are those since the samples in
// earlier, which it renews, else those that the page itself tells.
func topTable(processes []page.Process, earlier map[string]page.Sample) table.Writer {
	t := newTable(2, "pid", "program", "gpu", "peak load", "reserved", "waste", "hits", "driver", "step", "plan")
	for _, p := range processes {
		program := text.Snip(shortCommand(p.Command()), 12, "~")
		if rank := p.Rank(); rank != "" {
			program = text.Snip(program, 9, "~") + " r" + rank
		}
		for _, d := range p.Devices {
			key := fmt.Sprintf("%s %d", p.Path, d.Ordinal)
			before := d.Before
			if last, ok := earlier[key]; ok && d.Now.At.After(last.At) {
				before = last
			}
			if earlier != nil && d.Now.At.Sub(earlier[key].At) >= time.Second {
				earlier[key] = d.Now
			}
			t.AppendRow(topRow(p.PID, program, d, page.Between(before, d.Now)))
		}
	}
	return t
}

func topRow(pid int, program string, d page.Device, r page.Rates) table.Row {
	hits, driver, step := "-", "-", "-"
	if r.Requests > 0 && d.Now.PlanGeneration > 0 {
		hits = fmt.Sprintf("%.1f", 100*r.HitShare)
	}
	if r.Elapsed > 0 {
		driver = fmt.Sprintf("%.1f", 100*r.Driver)
	}
	if r.Step > 0 {
		step = fmt.Sprintf("%.3gms", float64(r.Step.Microseconds())/1e3)
	}
	if age := time.Since(d.Now.At); age > 10*time.Second {
		hits, driver, step = "-", "-", "idle "+age.Truncate(time.Second).String()
	}
	plan := "none"
	switch {
	case d.Now.Fallback > 0:
		plan = "plain" // driver allocations serve
	case d.Now.PlanGeneration > 0:
		plan = fmt.Sprintf("#%d", d.Now.PlanGeneration)
	}
	return table.Row{
		pid, program, d.Ordinal, amount(float64(d.Now.PeakAllocated)), amount(float64(d.Now.Reserved)),
		fmt.Sprintf("%.1f", 100*d.Now.Waste()), hits, driver, step, plan,
	}
}

// shortCommand is the script that an interpreter runs, or the program.
func shortCommand(command string) string {
	words := strings.Fields(command)
	for _, w := range words {
		if strings.HasSuffix(w, ".py") {
			return filepath.Base(w)
		}
	}
	for i, w := range words {
		if w == "-m" && i+1 < len(words) {
			return words[i+1]
		}
	}
	if len(words) == 0 {
		return "?"
	}
	return filepath.Base(words[0])
}
