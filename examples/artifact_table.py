"""What artifact.py has measured so far, as Markdown tables. A dash: not measured.

A row beside fake ranks has times only where its ledger says that losses and parameters stayed
finite: earlier ones computed with NaN, which is faster.
"""

import statistics

FAKE = "one rank of 8"
NAMES = {"native": "torch", "stalloc:pool=gmlake": "GMLake"}


def rows(bench, differs, skipped):
    """Allocated over reserved at most in %, and the median step in ms."""
    shown = [NAMES.get(a, a) for a in bench.args.allocators]
    lines = [
        f"| run | {' | '.join(shown)} | step, ms: {' | '.join(shown)} | differs from the paper's |",
        "|---" + "|--:" * (2 * len(shown)) + "|---|",
    ]
    for name, how in differs.items():
        if name in skipped:
            lines.append(f"| {name} |{' |' * 2 * len(shown)} not run: {skipped[name]} |")
            continue
        fake = how.startswith(FAKE)
        cells = [figures(*bench.ran(name, a), fake) for a in bench.args.allocators]
        both = [cell[0] for cell in cells] + [cell[1] for cell in cells]
        lines.append(f"| {name} | {' | '.join(both)} | {how} |")
    return "\n".join([*lines, *falls(bench, differs)])


def falls(bench, names):
    """By how much of native's each allocator lowers fragmentation, on average over the rows that
    both ran: the paper's other figure."""
    first, *others = bench.args.allocators
    said = []
    for allocator in others:
        both = [[efficiency(bench.ran(name, a)[0]) for a in (first, allocator)] for name in names]
        each = [1 - (1 - ours) / (1 - native) for native, ours in both if native and ours]
        if each:
            name = NAMES.get(allocator, allocator)
            said.append(f"{name} {100 * statistics.mean(each):.1f} % ({len(each)} rows)")
    return ["", f"Fragmentation falls by, on average: {', '.join(said)}."] if said else []


def efficiency(runs):
    """Allocated over reserved at most, at worst over the runs; None without runs, or memory."""
    if not runs or any(run["oom"] for run in runs):
        return None
    return min(run["peak_allocated"] / run["peak_reserved"] for run in runs)


def figures(runs, alone, fake):
    share = efficiency(runs)
    if share is None:
        return "out of memory" if runs else "–", "–"
    times = [run["step_ms"] for run in alone if run.get("finite") or not fake]
    return f"{100 * share:.1f}", f"{statistics.median(times):.0f}" if times else "–"


def throughput(found, cap, layers):
    """The fastest configuration of each allocator that fits, how much faster than torch's, and
    all that was tried."""
    lines = [
        f"| allocator | micro-batch in {cap:g} GiB | recomputed | tokens/s | of the first's |",
        "|---|--:|--:|--:|--:|",
    ]
    first = None
    for allocator, (_, best, runs) in found.items():
        name = NAMES.get(allocator, allocator)
        if not best:
            lines.append(f"| {name} | none fits | | | |")
            continue
        line = f"| {name} | {best[0]} | {best[1]} of {layers} |"
        if not runs or any(run["oom"] for run in runs):
            lines.append(f"{line} {'out of memory' if runs else '–'} | |")
            continue
        each = sorted(run["per_second"] for run in runs)
        middle = statistics.median(each)
        first = first or middle
        spread = f" ({each[0]:,.0f} to {each[-1]:,.0f})" if each[0] < each[-1] else ""
        lines.append(f"{line} {middle:,.0f}{spread} | {middle / first:.3f} |")
    return "\n".join([*lines, "", *tried(found, layers)])


def tried(found, layers):
    """Tokens a second in the one run of each configuration where the fastest was looked for."""
    names = [NAMES.get(allocator, allocator) for allocator in found]
    lines = [
        f"| micro-batch | recomputed | tokens/s, one run: {' | '.join(names)} |",
        "|--:" * (2 + len(names)) + "|",
    ]
    hows = {how for runs, _, _ in found.values() for how in runs}
    for batch, recomputed in sorted(hows, key=lambda how: how[::-1]):
        cells = [speed(runs.get((batch, recomputed))) for runs, _, _ in found.values()]
        lines.append(f"| {batch} | {recomputed} of {layers} | {' | '.join(cells)} |")
    return lines


def speed(run):
    if run is None:
        return "–"
    return "out of memory" if run["oom"] else f"{run['per_second']:,.0f}"
