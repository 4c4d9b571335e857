"""What turns.py has measured so far, as Markdown tables: medians over the turns, with the least and
the most where these differ. A dash: not measured."""

import random
import statistics

FIRST = 8  # steps; steady are those after them
MIB = 1 << 20


def tables(bench, programs):
    rows = [
        (f"{programs[name].title}{f', rank {rank}' if programs[name].ranks > 1 else ''}",
         {a: of_rank(bench.runs(name, a), rank) for a in bench.args.allocators})
        for name in bench.args.programs
        for rank in range(programs[name].ranks)
    ]  # fmt: skip
    commands = [
        f"- {programs[name].title}: `{programs[name].script} {' '.join(bench.options(name))}`"
        f"{bits(bench, name)}"
        for name in bench.args.programs
    ]
    shown = bench.args.allocators
    parts = [*sorted(bench.book.places), "\n".join(commands)]
    parts += [make(rows, shown) for make in (memory, steps, host)]
    return "\n\n".join(parts)


def of_rank(runs, rank):
    """A rank's results by turn; None where the run was out of memory."""
    return {
        turn: None if run["oom"] else run["others"][rank - 1] if rank else run
        for turn, run in runs.items()
    }


def bits(bench, name):
    """How many runs there are, and whether all trained the same."""
    ends = [
        (run.get("checksum"), *(other.get("checksum") for other in run.get("others", ())))
        for allocator in bench.args.allocators
        for run in bench.runs(name, allocator).values()
        if not run["oom"]
    ]
    if not ends:
        return ": not measured."
    same = "the same bits" if len(set(ends)) == 1 else "NOT the same bits"
    return f", {same} in the weights of all {len(ends)} runs."


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def cell(runs, quantity, form):
    """The median of a quantity, and its spread."""
    if None in runs.values():
        return "out of memory"
    if not runs:
        return "–"
    each = sorted(quantity(run) for run in runs.values())
    texts = [form.format(value) for value in (statistics.median(each), each[0], each[-1])]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]} to {texts[2]})"


def across(each, shown, quantity, form):
    return [cell(each[allocator], quantity, form) for allocator in shown]


def memory(rows, shown):
    """Peaks; waste is what was reserved and never allocated. Blocks that wait are not allocated."""

    def allocated(run):
        return run["peak_allocated"] / MIB

    def reserved(run):
        return run["peak_reserved"] / MIB

    def waste(run):  # on a CPU nothing is counted
        return 100 * (1 - allocated(run) / reserved(run)) if reserved(run) else 0

    head = ["MiB", "allocated", *(f"reserved: {a}" for a in shown), *(f"waste: {a}" for a in shown)]
    return table(head, [
        [title, cell(each[shown[-1]], allocated, "{:,.0f}"),
         *across(each, shown, reserved, "{:,.0f}"),
         *across(each, shown, waste, "{:.2f} %")]
        for title, each in rows
    ])  # fmt: skip


def timed(runs):
    """Those whose waits were timed, which older ones were not."""
    return {turn: run for turn, run in runs.items() if run is None or "wait_ms" in run}


def steady(run):
    """The median step in ms."""
    return statistics.median(run["steps_ms"][FIRST:])


def first(run):
    return sum(run["steps_ms"][:FIRST]) / 1000


def steps(rows, shown):
    """Steady steps, and the first eight; ratios are medians of those of each turn."""
    ours = shown[-1]
    head = [
        "", *(f"step, ms: {a}" for a in shown), f"{ours} / best peer, 95 %",
        *(f"first {FIRST}, s: {a}" for a in shown), f"{ours} / {shown[0]}, 95 %",
    ]  # fmt: skip
    lines = []
    for title, each in rows:
        known = [a for a in shown[:-1] if each[a] and None not in each[a].values()]
        peer = min(
            known,
            key=lambda a: statistics.median(map(steady, each[a].values())),  # noqa: B023
            default=shown[0],
        )
        lines.append([
            title, *across(each, shown, steady, "{:.1f}"), ratio(each[ours], each[peer], steady),
            *across(each, shown, first, "{:.2f}"), ratio(each[ours], each[shown[0]], first),
        ])  # fmt: skip
    return table(head, lines)


def ratio(ours, theirs, quantity):
    """The median over the turns of ours over theirs, with its 95 % interval."""
    each = [
        quantity(run) / quantity(theirs[turn])
        for turn, run in ours.items()
        if run and theirs.get(turn)
    ]
    if not each:
        return "–"
    low, high = interval(each)
    return f"{statistics.median(each):.3f}" + (f" ({low:.3f} to {high:.3f})" if each[1:] else "")


def interval(values, draws=10_000):
    """Where the median lies in 95 % of the samples drawn from the turns (bootstrap)."""
    draw = random.Random(1)  # the same interval whenever the table is made
    found = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(draws))
    return found[int(0.025 * draws)], found[int(0.975 * draws)]


def host(rows, shown):
    """What threads ran in a steady step, and what the driver and waits took of it, as stalloc has
    counted them."""
    ours = shown[-1]

    def mean(part):
        return lambda run: statistics.fmean(part(run)[FIRST:])

    def training(run):
        threads = run["threads_ms"]
        return [sum(both) for both in zip(threads["main"], threads["autograd"])]

    head = [
        "ms a step", *(f"main and autograd: {a}" for a in shown),
        *(f"other threads: {a}" for a in shown),
        f"{ours}: driver", "waiting", "driver calls a step", "waits a step",
    ]  # fmt: skip
    return table(head, [
        [title, *across(each, shown, mean(training), "{:.1f}"),
         *across(each, shown, mean(lambda run: run["threads_ms"]["others"]), "{:.1f}"),
         cell(each[ours], mean(lambda run: run["driver_ms"]), "{:.2f}"),
         cell(timed(each[ours]), mean(lambda run: run["wait_ms"]), "{:.2f}"),
         cell(each[ours], mean(lambda run: run["driver_calls"]), "{:.1f}"),
         cell(each[ours], mean(lambda run: run["waits"]), "{:.1f}")]
        for title, each in rows
    ])  # fmt: skip
