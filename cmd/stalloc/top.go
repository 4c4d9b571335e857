package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stalloc/live/metrics"
	"stalloc/live/page"
)

// topResult is what top prints of a device for programs.
type topResult struct {
	versioned
	PID      int     `json:"pid"`
	Rank     string  `json:"rank,omitempty"`
	Command  string  `json:"command"`
	Device   int     `json:"device"`
	At       string  `json:"at"`
	Waste    float64 `json:"waste"`
	HitShare float64 `json:"recent_hit_share"`
	Driver   float64 `json:"recent_driver_share"`
	StepUS   float64 `json:"recent_step_us"`
	Capacity uint64  `json:"capacity"`
	page.Stats
}

type topFlags struct {
	pid      int
	once     bool
	interval time.Duration
	metrics  int
	listen   string
	format   format
	folder   string
	sort     string
	gpus     []page.GPU
}

func newTop() *cobra.Command {
	flags := topFlags{format: asTable, folder: page.Folder, listen: "127.0.0.1",
		sort: topOrders[0].name}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what running processes do with GPU memory",
		Long: `Top shows every process that runs with stalloc, a row for each of its devices:
what live tensors take now and took at the peak, reserved memory, the device's
memory, waste at the peak, and an estimate of the memory in which PyTorch's own
allocator would run at full speed (it may fit in less: 'stalloc replay
--smallest' finds out from a recording). Of the last second or two: requests
that a plan served, the driver's share of the time and the time of a step. It
reads a page that the process keeps in /dev/shm, which costs the process
nothing. The device's memory comes from nvidia-smi, asked once.

On a terminal it refreshes: q quits, s sorts by the next column. A terminal that
is too narrow shows fewer columns. Elsewhere, and with --once, it prints once.
--metrics serves Prometheus at 127.0.0.1:PORT/metrics until it is interrupted,
to this user and root only; --listen chooses another address, which serves
anyone who can reach it. /grafana.json there is a dashboard.`,
		Example: `  stalloc top
  stalloc top --pid 4242 --once --format json
  stalloc top --metrics 29470`,
		Args: flags.arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	f := cmd.Flags()
	f.IntVar(&flags.pid, "pid", 0, "show only this process (default all)")
	f.BoolVar(&flags.once, "once", false, "print once")
	f.DurationVar(&flags.interval, "interval", time.Second, "time between two refreshes, at least 100ms")
	f.IntVar(&flags.metrics, "metrics", 0,
		fmt.Sprintf("serve Prometheus on this `port`, without one on %d", metrics.Port))
	f.Lookup("metrics").NoOptDefVal = strconv.Itoa(metrics.Port)
	f.StringVar(&flags.listen, "listen", flags.listen, "with --metrics: serve at this `address` of the machine")
	f.StringVar(&flags.sort, "sort", flags.sort, "sort by "+strings.Join(orderNames(), ", "))
	f.StringVar(&flags.folder, "folder", flags.folder, "where the pages are")
	addFormat(f, &flags.format)
	complete(cmd, map[string][]string{"format": formats, "sort": orderNames()})
	return cmd
}

// arguments takes the port of --metrics PORT, where the flag may stand without one.
func (f *topFlags) arguments(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Changed("metrics") {
		port, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("--metrics %s is no port: give a number from 1 to 65535", args[0])
		}
		f.metrics, args = port, nil
	}
	return cobra.NoArgs(cmd, args)
}

func (f *topFlags) run(cmd *cobra.Command) error {
	if f.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: pages change ten times a second, give at least 100ms",
			f.interval)
	}
	if f.pid < 0 {
		return fmt.Errorf("--pid %d: give the number of a process", f.pid)
	}
	if !slices.Contains(orderNames(), f.sort) {
		return fmt.Errorf("--sort %s: choose from %s", f.sort, strings.Join(orderNames(), ", "))
	}
	if cmd.Flags().Changed("metrics") && f.metrics == 0 || f.metrics < 0 || f.metrics > 1<<16-1 {
		return fmt.Errorf("--metrics %d is no port: give a number from 1 to 65535", f.metrics)
	}
	if _, err := os.ReadDir(f.folder); err != nil {
		return fmt.Errorf("--folder: %w; name the one that the pages are in, usually %s", err,
			page.Folder)
	}
	if f.metrics > 0 {
		if name := given(cmd, "once", "format", "json"); name != "" {
			return fmt.Errorf("--%s says how to print, and --metrics answers Prometheus until it is interrupted: give one of them", name)
		}
		return f.answer(cmd)
	}
	if cmd.Flags().Changed("listen") {
		return fmt.Errorf("--listen %s: give --metrics, too, which it is the address of", f.listen)
	}
	f.gpus = page.GPUs()
	if f.once || f.format != asTable || !forPeople(cmd.OutOrStdout()) {
		processes, err := f.read()
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %v\n", err)
			return errFailed
		}
		return f.print(newSession(cmd, f.format, 0), processes)
	}
	return f.watch(cmd)
}

// watch refreshes the terminal until q, or an interrupt.
func (f *topFlags) watch(cmd *cobra.Command) error {
	if _, err := f.read(); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %v\n", err)
		return errFailed
	}
	s := openScreen(cmd.OutOrStdout())
	defer s.close()
	earlier := map[string]page.Sample{}
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		text := "no process here runs with stalloc, or none of yours\n"
		if processes, err := f.read(); err != nil {
			text = err.Error() + "\n" // its process has ended
		} else if len(processes) > 0 {
			text = f.table(processes, earlier, widthOf(cmd.OutOrStdout())).Render() + "\n" +
				topNotes
		}
		if err := s.show(text, "q quits, s sorts: by "+f.sort); err != nil {
			return nil // the terminal is gone
		}
		select {
		case <-cmd.Context().Done():
			return nil // how one leaves
		case key := <-s.keys:
			switch key {
			case 'q', 'Q':
				return nil
			case 's', 'S':
				f.sort = nextOrder(f.sort)
			}
		case <-tick.C:
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
	server, err := metrics.Listen(f.listen, f.metrics, page.GPUs(), func() []page.Process {
		processes, _ := f.read() // none that can be read
		return processes
	})
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %v\n", err)
		return errFailed
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
		return s.finish(f.table(processes, nil, widthOf(s.out)), topNotes)
	}
	for _, p := range processes {
		for _, d := range p.Devices {
			r := page.Between(d.Before, d.Now)
			s.emit(topResult{
				versioned: formatVersion,
				PID:       p.PID, Rank: p.Rank(), Command: p.Command(), Device: d.Ordinal,
				At:    d.Now.At.UTC().Format(time.RFC3339Nano),
				Waste: d.Now.Waste(), HitShare: r.HitShare, Driver: r.Driver,
				StepUS:   float64(r.Step.Nanoseconds()) / 1e3,
				Capacity: p.Capacity(f.gpus, d.Ordinal), Stats: d.Now.Stats,
			})
		}
	}
	return s.finish(nil, "")
}
