package main

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

// key explains a JSON key, which is a column of a CSV as well.
type key struct{ name, meaning string }

// keysOf explains everything that is printed for programs, by the command that prints it.
var keysOf = []struct {
	title string
	keys  []key
}{
	{"stalloc replay: an object for each recording and allocator", []key{
		{"trace", "name of the recording"},
		{"allocator", "as --allocator names it; -noplan is added where chosen"},
		{"mode", "cold: nothing known at the start; warm: the second of two starts"},
		{"noise", "share of the requests that was disturbed, as --noise says; left out if none"},
		{"late", "share of the blocks that died later, as --late says; left out if none"},
		{"seed", "of the noise and of what is late; left out without both"},
		{"requests", "allocations, up to the one that failed if one did"},
		{"hits", "requests that a plan served; as a share of all: hits / requests"},
		{"misses", "requests that a plan was there for and did not serve"},
		{"peak_load_bytes", "largest sum of live blocks, each rounded up to 512 bytes"},
		{"peak_reserved_bytes", "most device memory held at once"},
		{"fragmentation", "waste: 1 - peak load / peak reserved, from 0 to 1"},
		{"driver_calls", "calls of the driver"},
		{"driver_time_us", "microseconds they take, modelled from measured costs"},
		{"steady_driver_calls", "of driver_calls, those in the steady part of the run"},
		{"steady_driver_time_us", "of driver_time_us, that in the steady part"},
		{"steady_time_us", "how long the steady part took when it was recorded; 0: there is none"},
		{"retries", "requests served only after memory was given back or streams were waited for"},
		{"steady_retries", "of retries, those in the steady part"},
		{"waited_us", "how long requests waited for blocks that other streams still used, while the device had work; left out if none did"},
		{"idle_us", "how long the device was idle for it; left out if it was not"},
		{"steps", "the steps of the run, without set-up, each with the keys below; not in CSV"},
		{"lost_events", "requests and frees that were not observed; left out if none"},
		{"oom", "the device was full and the run ended there; the rest covers what came before"},
		{"fits_in_bytes", "the smallest device on which the run ends, with --smallest; else left out"},
		{"full_speed_in_bytes",
			"the smallest on which it also runs at full speed, with --smallest; left out if it does on none, or steady_time_us is 0"},
	}},
	{"stalloc replay: each of steps", []key{
		{"time_us", "how long the step took when it was recorded"},
		{"driver_calls", "calls of the driver in it"},
		{"driver_time_us", "microseconds they take, modelled"},
		{"retries", "requests served only after memory was given back or streams were waited for"},
		{"peak_load_bytes", "largest sum of live blocks in it"},
	}},
	{"stalloc diff: one object", []key{
		{"by", "what groups are by: stack, shape or phase"},
		{"base", "the first run, with the keys below"},
		{"new", "the second"},
		{"change_bytes", "what is live at the peak of the second, less that of the first"},
		{"change_share", "the same, as a share of the first"},
		{"groups", "what was live at the peaks, the largest change first, with the keys below"},
		{"steps", "the peak of each step, with the keys below"},
	}},
	{"stalloc diff: each of base and new", []key{
		{"name", "of the recording"},
		{"step", "that the peak is in"},
		{"peak_load_bytes", "sum of live blocks at the peak, each rounded up to 512 bytes"},
		{"blocks", "live then"},
		{"lost", "what a snapshot's history had lost; left out if nothing"},
	}},
	{"stalloc diff: each of groups", []key{
		{"what", "the frame, the size or the phase"},
		{"stack", "a frame a line, the innermost first; left out where there is none"},
		{"base_bytes", "of the first run"},
		{"new_bytes", "of the second"},
		{"change_bytes", "the second less the first"},
		{"base_blocks", "how many, in the first"},
		{"new_blocks", "how many, in the second"},
	}},
	{"stalloc diff: each of steps", []key{
		{"name", "of the step, in the first run if it is there"},
		{"base_bytes", "peak of the first run's step; 0: it has none"},
		{"new_bytes", "of the second's"},
		{"change_bytes", "the second less the first"},
	}},
	{"stalloc fit: an object for each allocator and figure", []key{
		{"allocator", "as --allocator names it, or live tensors, which no allocator can exceed"},
		{"figure", "fits: the run ends; full_speed: it is not slowed down either"},
		{"method", "replay: runs of other sizes are made up and replayed; line: through what recordings need"},
		{"capacity_bytes", "as --capacity says"},
		{"largest", "size that does, a multiple of --multiple; 0: none"},
		{"low", "it may be off: at least this"},
		{"high", "and at most this"},
		{"fixed_bytes", "memory that does not grow with the size, around the largest; 0 of allocators where method is replay"},
		{"each_bytes", "memory for each unit of size there; 0 of allocators where method is replay"},
		{"off_bytes", "by how much the memory of the largest may be off"},
		{"checked", "whether three sizes or more say by how much it is no line"},
		{"cannot_tell", "why there is none, and what to do; the figures are 0; left out otherwise"},
		{"offload", "with --offload, of states offloaded: an object for each recording"},
	}},
	{"offload, of stalloc fit", []key{
		{"size", "of the recording"},
		{"states_bytes", "optimizer states in blocks of 1 MiB or more"},
		{"states_blocks", "how many"},
		{"inferred", "the recording does not mark where the optimizer begins"},
		{"whole_bytes", "what live tensors need with the states on the device"},
		{"fits_bytes", "what they need with the states offloaded"},
		{"step_ns", "how long a step takes, but for the first, on average"},
		{"longer_ns", "how much longer the slowest takes in fits_bytes, at about"},
		{"link_bytes_per_second", "as --link says"},
	}},
	{"stalloc plan: an object for each recording", []key{
		{"trace", "name of the recording"},
		{"requests", "of the steps that came again: those in the plan"},
		{"peak_load_bytes", "largest sum of live blocks of each of those steps, added up"},
		{"hold_bytes", "memory that each needs in the plan, added up"},
		{"gap", "hold / peak load - 1"},
		{"steady", "whether steps came again, and the plan has them"},
		{"seconds", "time of the replay and the planning, without reading the recording"},
	}},
	{"stalloc plan: an object for each problem", []key{
		{"problem", "name of the file"},
		{"buffers", "how many"},
		{"bound_bytes", "no placement ends lower: the peak load, or the end of what is pinned"},
		{"top_bytes", "where the highest buffer ends"},
		{"gap", "top / bound - 1"},
		{"optimal", "whether it is proved that nothing ends lower"},
		{"fits", "below --capacity: yes, no, or never, which is proved; yes without it"},
		{"solver", "as --solver names it"},
		{"seed", "as --seed says"},
		{"units", "of work spent"},
		{"seconds", "that it took"},
	}},
	{"stalloc plan --pareto: an object for each point", []key{
		{"problem", "name of the file"},
		{"point", "of its front, from 0"},
		{"memory", "top / peak load - 1"},
		{"handles", "units of 2 MiB that are touched, / the fewest - 1"},
		{"moved", "share of the bytes that lie elsewhere than in a live run's plan"},
		{"late", "share of the bytes whose place is taken again within 1 % of the step"},
		{"disturbed", "how much higher than the load replays end with so much noise or so many late: an object; not in CSV"},
	}},
	{"stalloc tune: an object for each point of the front, and one for the defaults", []key{
		{"point", "of the front, from 0; -1: the defaults, wherever they lie"},
		{"handle_part", "a handle is at most such a part of the load"},
		{"handle_most_bytes", "the largest handle"},
		{"grow_part", "memory is made in such parts of a handle"},
		{"small_limit_bytes", "requests up to this have an arena of their own"},
		{"waste", "percent, 1 - peak load / peak reserved, an average over the recordings, as all that follow are"},
		{"device", "percent above the load of a device that is large enough for full speed: a bound"},
		{"driver", "percent of the steady part that calls of the driver take"},
		{"first_eight", "percent of the first eight steps"},
		{"noisy_waste", "percent wasted where requests come and go, as --noise says"},
		{"conf", "the point's settings for STALLOC_CONF; empty: the defaults"},
	}},
	{"stalloc top: an object for each device of each process", []key{
		{"pid", "number of the process"},
		{"rank", "among the processes of its run, as RANK says; left out if unknown"},
		{"command", "how it was started"},
		{"device", "CUDA ordinal"},
		{"at", "when these figures were told"},
		{"waste", "1 - peak allocated / peak reserved"},
		{"recent_hit_share", "of the requests of the last second or two, those that a plan served"},
		{"recent_driver_share", "of that time, the share that calls of the driver took"},
		{"recent_step_us", "microseconds of a step in that time; 0: none has ended"},
		{"capacity", "bytes of the device's memory, as nvidia-smi says; 0: it cannot be told"},
	}},
	{"stalloc top: of the same object, the counters of stalloc.h since the start", []key{
		{"requests", "allocations asked for"},
		{"hits", "requests that a plan served"},
		{"misses", "requests that a plan was there for and did not serve"},
		{"steps", "step boundaries"},
		{"plan_generation", "plans activated"},
		{"allocated", "bytes in live blocks, each rounded up to 512"},
		{"peak_allocated", "its peak"},
		{"requested", "bytes in live blocks as they were asked for"},
		{"peak_requested", "its peak"},
		{"active", "bytes in blocks that are live or wait for other streams"},
		{"peak_active", "its peak"},
		{"reserved", "bytes of device memory held"},
		{"peak_reserved", "its peak"},
		{"allocated_total", "bytes allocated so far"},
		{"freed_total", "bytes freed so far"},
		{"blocks", "live blocks"},
		{"peak_blocks", "its peak"},
		{"blocks_total", "blocks allocated so far"},
		{"driver_calls", "calls of the driver"},
		{"driver_ns", "nanoseconds in them"},
		{"ooms", "requests refused because memory was out"},
		{"retries", "requests served only after memory was given back"},
		{"lost_events", "requests and frees that were not observed"},
		{"fallback", "requests that plain driver allocations served"},
		{"native_peak_reserved",
			"what PyTorch's own allocator would have reserved at most, in which it would be at full speed, estimated; 0: it cannot be told"},
		{"native_steps", "the steps that this is an estimate of, from the first on"},
		{"native_ooms", "1: its device would have been full after them"},
		{"asleep", "memory that pause() gave back, or that regions lend"},
		{"backup", "what the host keeps of it"},
		{"waits", "requests that waited for other streams rather than have memory made"},
		{"wait_ns", "nanoseconds that they took"},
		{"lent", "of asleep, what no pause() gave back"},
	}},
}

// newKeys is a topic of help, not a command.
func newKeys() *cobra.Command {
	var b strings.Builder
	b.WriteString("What --format json and --format csv print. Amounts are bytes. Each object of JSON, and\n" +
		"each row of CSV, has a version, now 1: keys are added at any time; one that changes\n" +
		"its meaning, or goes, raises it, and the changelog says so.\n")
	for _, of := range keysOf {
		b.WriteString("\n" + of.title + "\n\n")
		for _, k := range of.keys {
			meaning := strings.ReplaceAll(text.WrapSoft(k.meaning, 54), "\n",
				"\n"+strings.Repeat(" ", 25))
			b.WriteString("  " + k.name + strings.Repeat(" ", 23-len(k.name)) + meaning + "\n")
		}
	}
	return &cobra.Command{Use: "keys", Short: "The keys of JSON and CSV output",
		Long: strings.TrimSuffix(b.String(), "\n")}
}
