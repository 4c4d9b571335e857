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
	{"stalloc replay, stalloc score: an object for each recording and allocator", []key{
		{"trace", "name of the recording"},
		{"allocator", "as --allocator names it; -noplan is added where chosen; of score, as --name says"},
		{"mode", "cold: nothing known at the start; warm: the second of two starts"},
		{"noise", "share of the requests that were disturbed, as --noise says; left out if none"},
		{"late", "share of the blocks that died later, as --late says; left out if none"},
		{"seed", "seed of --noise and --late; left out without both"},
		{"requests", "allocations, up to the one that failed if one did"},
		{"hits", "requests that a plan served; as a share of all: hits / requests; 0 of score"},
		{"misses", "requests that a plan was there for and did not serve; 0 of score"},
		{"peak_load_bytes", "largest sum of live blocks, each rounded up to 512 bytes"},
		{"peak_reserved_bytes", "most device memory held at once"},
		{"fragmentation", "waste: 1 - peak load / peak reserved, from 0 to 1"},
		{"driver_calls", "calls of the driver; 0 of score"},
		{"driver_time_us", "microseconds that they take, modelled from measured costs; of score, what the simulator tells, or 0"},
		{"steady_driver_calls", "those of driver_calls that are in the steady part of the run"},
		{"steady_driver_time_us", "the part of driver_time_us that is in the steady part"},
		{"steady_time_us", "how long the steady part took when it was recorded; 0: there is none"},
		{"retries", "requests served only after memory was given back or streams were waited for; of score, what the simulator tells, or 0"},
		{"steady_retries", "those of retries that are in the steady part"},
		{"waited_us", "how long requests waited for blocks that other streams still used, while the device had work; left out if none did"},
		{"idle_us", "how long the device was idle because of such waits; left out if it was not"},
		{"steps", "the steps of the run, without set-up, each with the keys below; not in CSV"},
		{"lost_events", "requests and frees that were not observed; left out if none"},
		{"oom", "whether the device was full, where the run ended; the rest covers what came before"},
		{"fits_in_bytes", "the smallest device on which the run ends, with --smallest; else left out"},
		{"full_speed_in_bytes",
			"the smallest on which it also runs at full speed, with --smallest; left out if it does on none, if steady_time_us is 0, or if score's simulator tells no retries"},
	}},
	{"stalloc replay, stalloc score: each of steps", []key{
		{"time_us", "how long the step took when it was recorded"},
		{"driver_calls", "calls of the driver in it"},
		{"driver_time_us", "microseconds that they take, modelled"},
		{"retries", "requests served only after memory was given back or streams were waited for"},
		{"peak_load_bytes", "largest sum of live blocks in it"},
	}},
	{"stalloc diff: one object", []key{
		{"by", "what groups are by: stack, shape or phase"},
		{"base", "the first run, with the keys below"},
		{"new", "the second run, with the keys below"},
		{"change_bytes", "what is live at the peak of the second, less that of the first"},
		{"change_share", "the same, as a share of the first"},
		{"groups", "what was live at the peaks, the largest change first, with the keys below"},
		{"steps", "the peak of each step, with the keys below"},
	}},
	{"stalloc diff: each of base and new", []key{
		{"name", "name of the recording"},
		{"step", "the step that the peak is in"},
		{"peak_load_bytes", "sum of live blocks at the peak, each rounded up to 512 bytes"},
		{"blocks", "how many blocks are live at the peak"},
		{"lost", "what a snapshot's history had lost; left out if it had lost nothing"},
	}},
	{"stalloc diff: each of groups", []key{
		{"what", "the frame, the size or the phase that the group is of"},
		{"stack", "a frame a line, the innermost first; left out where there is none"},
		{"base_bytes", "bytes of it that are live at the peak of the first run"},
		{"new_bytes", "the same for the second run"},
		{"change_bytes", "new_bytes less base_bytes"},
		{"base_blocks", "how many blocks these bytes are in"},
		{"new_blocks", "the same for the second run"},
	}},
	{"stalloc diff: each of steps", []key{
		{"name", "name of the step, the first run's if it has the step"},
		{"base_bytes", "peak of the step in the first run; 0: it has no such step"},
		{"new_bytes", "the same for the second run"},
		{"change_bytes", "new_bytes less base_bytes"},
	}},
	{"stalloc fit: an object for each allocator and figure", []key{
		{"allocator", "as --allocator names it, or live tensors, which no allocator can exceed"},
		{"figure", "fits: the run ends; full_speed: it is not slowed down either"},
		{"method", "replay: runs of other sizes are made up and replayed; line: through what recordings need"},
		{"capacity_bytes", "memory of the device, as --capacity says"},
		{"largest", "the largest size that does, a multiple of --multiple; 0: none does"},
		{"low", "the largest size may be off: it is at least this"},
		{"high", "it is at most this"},
		{"fixed_bytes", "memory that does not grow with the size, around the largest; 0 of allocators where method is replay"},
		{"each_bytes", "memory for each unit of size there; 0 of allocators where method is replay"},
		{"off_bytes", "by how much the memory of the largest may be off"},
		{"checked", "whether there are recordings of three sizes or more, which show how far from a line the memory is"},
		{"cannot_tell", "why there is no answer, and what to do; the figures are 0 then; left out otherwise"},
		{"offload", "with --offload, what offloading the states does: an object for each recording"},
	}},
	{"offload, of stalloc fit", []key{
		{"size", "size of the recording"},
		{"states_bytes", "bytes of the optimizer states in blocks of 1 MiB or more"},
		{"states_blocks", "how many such blocks there are"},
		{"inferred", "whether the recording does not mark where the optimizer begins"},
		{"whole_bytes", "what live tensors need with the states on the device"},
		{"fits_bytes", "what they need with the states offloaded"},
		{"step_ns", "how long a step takes on average, without the first"},
		{"longer_ns", "about how much longer the slowest step takes in fits_bytes"},
		{"link_bytes_per_second", "speed of the link to the host, as --link says"},
	}},
	{"stalloc plan: an object for each recording", []key{
		{"trace", "name of the recording"},
		{"requests", "requests in the plan: those of the steps that came again"},
		{"peak_load_bytes", "largest sum of live blocks of each of those steps, added up"},
		{"hold_bytes", "memory that each of those steps needs in the plan, added up"},
		{"gap", "hold / peak load - 1"},
		{"steady", "whether steps came again, and the plan has them"},
		{"seconds", "time of the replay and the planning, without reading the recording"},
	}},
	{"stalloc plan: an object for each problem", []key{
		{"problem", "name of the file"},
		{"buffers", "how many buffers it has"},
		{"bound_bytes", "no placement ends lower: the peak load, or the end of what is pinned"},
		{"top_bytes", "where the highest buffer ends"},
		{"gap", "top / bound - 1"},
		{"optimal", "whether it is proved that nothing ends lower"},
		{"fits", "whether it fits within --capacity: yes, no, or never, which is proved; without --capacity yes"},
		{"solver", "name of the solver, as --solver has it"},
		{"seed", "seed of the solver, as --seed says"},
		{"units", "units of work that were spent"},
		{"seconds", "seconds that it took"},
	}},
	{"stalloc plan --pareto: an object for each point", []key{
		{"problem", "name of the file"},
		{"point", "number of the point on the problem's front, from 0"},
		{"memory", "top / peak load - 1"},
		{"handles", "units of 2 MiB that are touched / the fewest possible - 1"},
		{"moved", "share of the bytes that lie elsewhere than in a live run's plan"},
		{"late", "share of the bytes whose place is taken again within 1 % of the step"},
		{"disturbed", "how much higher than the load replays end with so much noise or so many late: an object; not in CSV"},
	}},
	{"stalloc tune: an object for each point of the front, and one for the defaults", []key{
		{"point", "number of the point on the front, from 0; -1: the defaults, wherever they lie"},
		{"handle_part", "a handle is at most such a part of the load"},
		{"handle_most_bytes", "the largest handle"},
		{"grow_part", "memory is made in such parts of a handle"},
		{"small_limit_bytes", "requests up to this have an arena of their own"},
		{"waste", "1 - peak load / peak reserved in percent; an average over the recordings, as all that follow are"},
		{"device", "a bound on the device that full speed needs, in percent above the load"},
		{"driver", "percent of the steady part's time that calls of the driver take"},
		{"first_eight", "percent of the first eight steps' time that they take"},
		{"noisy_waste", "waste in percent where requests come and go, as --noise says"},
		{"conf", "the point's settings for STALLOC_CONF; empty: the defaults"},
	}},
	{"stalloc top: an object for each device of each process", []key{
		{"pid", "number of the process"},
		{"rank", "its rank among the processes of its run, as RANK says; left out if unknown"},
		{"command", "command that started the process"},
		{"device", "CUDA ordinal of the device"},
		{"at", "when these figures were told"},
		{"waste", "1 - peak allocated / peak reserved"},
		{"recent_hit_share", "share of the requests of the last second or two that a plan served"},
		{"recent_driver_share", "share of that time that calls of the driver took"},
		{"recent_step_us", "microseconds that a step took in that time; 0: none has ended"},
		{"capacity", "bytes of the device's memory, as nvidia-smi says; 0: it cannot be told"},
	}},
	{"stalloc top: of the same object, the counters of stalloc.h since the start", []key{
		{"requests", "allocations asked for"},
		{"hits", "requests that a plan served"},
		{"misses", "requests that a plan was there for and did not serve"},
		{"steps", "step boundaries"},
		{"plan_generation", "how many plans have been activated"},
		{"allocated", "bytes in live blocks, each rounded up to 512"},
		{"peak_allocated", "peak of allocated"},
		{"requested", "bytes in live blocks as they were asked for"},
		{"peak_requested", "peak of requested"},
		{"active", "bytes in blocks that are live or wait for other streams"},
		{"peak_active", "peak of active"},
		{"reserved", "bytes of device memory held"},
		{"peak_reserved", "peak of reserved"},
		{"allocated_total", "bytes allocated so far"},
		{"freed_total", "bytes freed so far"},
		{"blocks", "live blocks"},
		{"peak_blocks", "peak of blocks"},
		{"blocks_total", "blocks allocated so far"},
		{"driver_calls", "calls of the driver"},
		{"driver_ns", "nanoseconds that they took"},
		{"ooms", "requests refused because memory was out"},
		{"retries", "requests served only after memory was given back"},
		{"lost_events", "requests and frees that were not observed"},
		{"fallback", "requests that plain driver allocations served"},
		{"native_peak_reserved",
			"what PyTorch's own allocator would have reserved at most, in which it would be at full speed, estimated; 0: it cannot be told"},
		{"native_steps", "the steps that this is an estimate of, from the first on"},
		{"native_ooms", "1: under that allocator the device would have been full after native_steps"},
		{"asleep", "bytes that pause() gave back, or that regions lend"},
		{"backup", "bytes of the host that are kept for it"},
		{"waits", "requests that waited for other streams, instead of memory being made"},
		{"wait_ns", "nanoseconds that they waited"},
		{"lent", "the part of asleep that regions lend, without a pause()"},
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
