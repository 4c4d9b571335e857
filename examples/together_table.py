"""What together.py has measured so far, as a Markdown table.

Steps of the same number are compared, under one allocator over under the other. The first step of
each turn does not count: the others have had the caches. A step is kept if the host was within a
tenth of its fast speed before and behind it, under both; the fast speed is that of the fastest
tenth of what all processes of the program have seen. A ratio is the median over the turns of the
median of each, with its 95 % interval (bootstrap over the turns).
"""

import statistics

from turns_table import interval, table

FIRST = 8
SLOWER = 1.1  # of the fast speed's time


def kept(runs):
    """By set, allocator and step: whether the host was fast."""
    seen = sorted(us for run in runs for result in run.values() for us in result["host_us"][FIRST:])
    if not seen:
        return []
    fast = seen[len(seen) // 10]
    return [
        {a: [us <= SLOWER * fast for us in result["host_us"]] for a, result in run.items()}
        for run in runs
    ]


def turns(run, every):
    """The steps of each turn that count."""
    count = min(len(result["steps_ms"]) for result in run.values())
    return [range(at + 1, min(at + every, count)) for at in range(FIRST, count, every)]


def ratios(runs, every, quantity, ours, theirs, fast=None):
    """Of each turn that has kept steps: the median of ours over theirs."""
    found = []
    for number, run in enumerate(runs):
        mine, other = quantity(run[ours]), quantity(run[theirs])
        for turn in turns(run, every):
            steps = [n for n in turn if fast is None
                     or fast[number][ours][n] and fast[number][theirs][n]]  # fmt: skip
            each = [mine[n] / other[n] for n in steps if other[n]]
            if each:
                found.append(statistics.median(each))
    return found


def wall(result):
    return result["steps_ms"]


def training(result):
    """CPU time of the threads that train."""
    threads = result["threads_ms"]
    return [sum(both) for both in zip(threads["main"], threads["autograd"])]


def level(runs, every, quantity, allocator, fast):
    """The median of the kept steps, in ms."""
    each = [
        quantity(run[allocator])[n]
        for number, run in enumerate(runs)
        for turn in turns(run, every)
        for n in turn
        if fast[number][allocator][n]
    ]
    return statistics.median(each) if each else None


def share(runs, every, allocator, fast):
    steps = [
        fast[number][allocator][n]
        for number, run in enumerate(runs)
        for turn in turns(run, every)
        for n in turn
    ]
    return sum(steps) / len(steps) if steps else 0


def on_device(runs, allocator):
    """What kernels run of the step that was profiled."""
    known = [run[allocator]["device_ms"] for run in runs if run[allocator].get("device_ms")]
    return round(statistics.median(known), 1) if known else None


def with_interval(each):
    if not each:
        return "–"
    low, high = interval(each)
    return f"{statistics.median(each):.3f} ({low:.3f} to {high:.3f})"


def verdict(each):
    """What the interval of a ratio of times says."""
    if not each:
        return "–"
    low, high = interval(each)
    return "slower" if low > 1 else "faster" if high < 1 else "no difference seen"


def row(bench, name):
    """What is known of a program: the last allocator's times over those of each other."""
    runs = [run for run in bench.runs(name) if not any(result["oom"] for result in run.values())]
    if not runs:
        return {}
    *peers, ours = bench.args.allocators
    every, fast = bench.args.every, kept(runs)

    def against(peer, quantity, which):
        return ratios(runs, every, quantity, ours, peer, which)

    found = {"kept": {a: round(share(runs, every, a, fast), 2) for a in bench.args.allocators}}
    found["turns"] = sum(len(turns(run, every)) for run in runs)
    for what, quantity in (("step", wall), ("cpu", training)):
        levels = {a: level(runs, every, quantity, a, fast) for a in bench.args.allocators}
        found[f"{what}_ms"] = {a: value and round(value, 1) for a, value in levels.items()}
        for peer in peers:
            found[f"{what}/{peer}"] = with_interval(against(peer, quantity, fast))
            found[f"{what}/{peer}, all"] = with_interval(against(peer, quantity, None))
        found[f"{what}: {ours} is"] = {p: verdict(against(p, quantity, fast)) for p in peers}
    found["device_ms"] = {a: on_device(runs, a) for a in bench.args.allocators}
    found["same bits"] = all(len({r["checksum"] for r in run.values()}) == 1 for run in runs)
    return found


def tables(bench, programs):
    rows = {name: row(bench, name) for name in bench.args.programs}
    rows = {name: of for name, of in rows.items() if of}
    parts = sorted(bench.book.places)
    parts += [
        f"- {programs[name].title}: `{programs[name].script} {' '.join(bench.options(name))}`, "
        f"{of['turns']} turns; {'the same' if of['same bits'] else 'NOT the same'} bits."
        for name, of in rows.items()
    ]
    *peers, ours = bench.args.allocators
    for what, title in (("step", "a step, ms"), ("cpu", "CPU time of main and autograd, ms")):
        head = [title, *bench.args.allocators]
        head += [text for p in peers for text in (f"{ours} / {p}, 95 %", "all steps")]
        lines = [
            [programs[name].title, *map(figure, of[f"{what}_ms"].values()),
             *(of[f"{what}/{p}{more}"] for p in peers for more in ("", ", all"))]
            for name, of in rows.items()
        ]  # fmt: skip
        parts.append(table(head, lines))
    head = ["", *(f"kept: {a}" for a in bench.args.allocators)]
    head += [f"on the device, ms: {a}" for a in bench.args.allocators]
    lines = [
        [programs[name].title, *(f"{100 * part:.0f} %" for part in of["kept"].values()),
         *map(figure, of["device_ms"].values())]
        for name, of in rows.items()
    ]  # fmt: skip
    return "\n\n".join([*parts, table(head, lines)])


def figure(value):
    return "–" if value is None else f"{value:,.1f}"
