"""What together.py has measured so far, as Markdown tables.

Steps of the same number are compared, under one allocator over under the other. The first step of
each turn does not count: the others have had the caches. A pair of steps is kept if the host was
equally fast for both, within a tenth, by the fixed loop that each process timed before and after
its step. A ratio is the median over the turns of the median of each, with its 95 % interval
(bootstrap over the turns); with fewer than three turns there is none. Memory is that of all steps,
without a limit: what was reserved at most, over the peak load, the most that live tensors needed
at once.
"""

import statistics

from names import name
from turns_table import interval, table

GIB = 1 << 30

FIRST = 8
ALIKE = 1.1  # of the other's time for the fixed loop, at most
LEAST = 3  # turns


def alike(run, ours, theirs):
    """By step, whether the host was equally fast for both."""
    pairs = zip(run[ours]["host_us"], run[theirs]["host_us"])
    return [max(pair) <= ALIKE * min(pair) for pair in pairs]


def turns(run, every):
    """The steps of each turn that count."""
    count = min(len(result["steps_ms"]) for result in run.values())
    return [range(at + 1, min(at + every, count)) for at in range(FIRST, count, every)]


def ratios(runs, every, quantity, ours, theirs, keep):
    """Of each turn: the median of ours over theirs; with `keep` of the pairs that are alike."""
    found = []
    for run in runs:
        mine, other, same = quantity(run[ours]), quantity(run[theirs]), alike(run, ours, theirs)
        for turn in turns(run, every):
            each = [mine[n] / other[n] for n in turn if other[n] and (same[n] or not keep)]
            if each:
                found.append(statistics.median(each))
    return found


def wall(result):
    return result["steps_ms"]


def training(result):
    """CPU time of the threads that train."""
    threads = result["threads_ms"]
    return [sum(both) for both in zip(threads["main"], threads["autograd"])]


def level(runs, every, quantity, allocator):
    """The median of the steps that count, in ms."""
    every_step = [
        quantity(run[allocator])[n] for run in runs for turn in turns(run, every) for n in turn
    ]
    return round(statistics.median(every_step), 1)


def share(runs, every, ours, theirs):
    """Of the pairs: how many are alike."""
    pairs = [
        alike(run, ours, theirs)[n] for run in runs for turn in turns(run, every) for n in turn
    ]
    return round(sum(pairs) / len(pairs), 2)


QUANTITIES = {"step": wall, "cpu": training}


def on_device(runs, allocator):
    """What kernels run of the step that was profiled."""
    known = [run[allocator]["device_ms"] for run in runs if run[allocator].get("device_ms")]
    return round(statistics.median(known), 1) if known else None


def with_interval(each):
    if len(each) < LEAST:
        return "–"
    low, high = interval(each)
    return f"{statistics.median(each):.3f} ({low:.3f} to {high:.3f})"


def verdict(each):
    """What the interval of a ratio of times says."""
    if len(each) < LEAST:
        return "–"
    low, high = interval(each)
    return "slower" if low > 1 else "faster" if high < 1 else "no difference seen"


def sets(bench, name):
    """The sets in which nobody ran out of memory."""
    return [run for run in bench.runs(name) if not any(result["oom"] for result in run.values())]


def row(bench, name):
    """What is known of a program: the last allocator's times over those of each other."""
    runs = sets(bench, name)
    if not runs:
        return {}
    *peers, ours = bench.args.allocators
    every = bench.args.every
    found = {"turns": sum(len(turns(run, every)) for run in runs)}
    found["kept"] = {peer: share(runs, every, ours, peer) for peer in peers}
    for what, quantity in QUANTITIES.items():
        found[f"{what}_ms"] = {a: level(runs, every, quantity, a) for a in bench.args.allocators}
        for peer in peers:
            each = [ratios(runs, every, quantity, ours, peer, keep) for keep in (True, False)]
            found[f"{what}/{peer}"], found[f"{what}/{peer}, all"] = map(with_interval, each)
            found[f"{what} beside {peer}"] = verdict(each[0])
    found["device_ms"] = {a: on_device(runs, a) for a in bench.args.allocators}
    found["same bits"] = all(len({r["checksum"] for r in run.values()}) == 1 for run in runs)
    return found


def together(bench, names, what, peer, keep):
    """A ratio over the turns of all programs."""
    *_, ours = bench.args.allocators
    return with_interval([
        ratio for name in names
        for ratio in ratios(sets(bench, name), bench.args.every, QUANTITIES[what], ours, peer, keep)
    ])  # fmt: skip


def above(runs, allocator):
    """What was reserved above the peak load, in %; None where nothing was counted."""
    live = peak_load(runs)
    if not live:
        return None
    held = statistics.median(run[allocator]["peak_reserved"] for run in runs)
    return 100 * (held / live - 1)


def peak_load(runs):
    """In bytes; cudaMallocAsync does not count what was asked for."""
    return max(result["peak_load"] for run in runs for result in run.values())


def tables(bench, programs):
    rows = {name: row(bench, name) for name in bench.args.programs}
    rows = {name: of for name, of in rows.items() if of}
    parts = sorted(bench.book.places)
    parts += [
        f"- {programs[name].title}: `{programs[name].script} {' '.join(bench.options(name))}`, "
        f"{of['turns']} turns; {bits(bench, name, of)}."
        for name, of in rows.items()
    ]
    titles = {name: programs[name].title for name in rows}
    parts.append(memory(bench, titles))
    for what, title in (("step", "a step, ms"), ("cpu", "CPU time of main and autograd, ms")):
        parts += [times(bench, titles, rows, what, title), alike_alone(bench, titles, rows, what)]
    head = ["on the device, ms", *map(name, bench.args.allocators)]
    lines = [[titles[n], *map(figure, of["device_ms"].values())] for n, of in rows.items()]
    return "\n\n".join([*parts, table(head, lines)])


def memory(bench, titles):
    head = ["memory above the peak load, %", "peak load, GiB", *map(name, bench.args.allocators)]
    lines = []
    for program, title in titles.items():
        runs = sets(bench, program)
        cells = [above(runs, a) for a in bench.args.allocators]
        lines.append([title, f"{peak_load(runs) / GIB:.1f}", *map(figure, cells)])
    return table(head, lines)


def times(bench, titles, rows, what, title):
    """Times, and ours over each peer's, of all pairs."""
    *peers, ours = bench.args.allocators
    head = [title, *map(name, bench.args.allocators)]
    head += [f"{name(ours)} / {name(peer)}, 95 %" for peer in peers]
    lines = [
        [titles[n], *map(figure, of[f"{what}_ms"].values()),
         *(of[f"{what}/{peer}, all"] for peer in peers)]
        for n, of in rows.items()
    ]  # fmt: skip
    of_all = [together(bench, rows, what, peer, False) for peer in peers]
    lines.append(["**all**", *[""] * len(bench.args.allocators), *of_all])
    return table(head, lines)


def alike_alone(bench, titles, rows, what):
    """The same of the pairs in which the host was equally fast, and how many these are."""
    *peers, ours = bench.args.allocators
    head = ["the host equally fast: pairs kept, ratio"]
    head += [f"{name(ours)} / {name(peer)}, 95 %" for peer in peers]
    lines = [
        [titles[n], *(f"{100 * of['kept'][p]:.0f} %: {of[f'{what}/{p}']}" for p in peers)]
        for n, of in rows.items()
    ]
    lines.append(["**all**", *(together(bench, rows, what, peer, True) for peer in peers)])
    return table(head, lines)


def bits(bench, name, of):
    if "--no-deterministic" in bench.options(name):
        return "bits not compared"
    return "the same bits" if of["same bits"] else "NOT the same bits"


def figure(value):
    return "–" if value is None else f"{value:,.1f}"
