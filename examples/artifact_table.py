"""What artifact.py has measured so far, as Markdown tables. A dash: not measured.

A row beside fake ranks has times only where its ledger says that losses and parameters stayed
finite: earlier ones computed with NaN, which is faster.
"""

import itertools
import statistics

from names import name

FAKE = "one rank of 8"


def rows(bench, differs, skipped):
    """Memory, and the steps' time."""
    parts = [memory(bench, differs, skipped), times(bench, differs), ratios(bench, differs)]
    return "\n\n".join(filter(None, parts))


def memory(bench, differs, skipped):
    """Allocated over reserved at most, in %."""
    those = bench.args.allocators
    lines = [
        f"| allocated / reserved, % | {' | '.join(map(name, those))} | differs from the paper's |",
        "|---" + "|--:" * len(those) + "|---|",
    ]
    for row, how in differs.items():
        if row in skipped:
            lines.append(f"| {row} |{' |' * len(those)} not run: {skipped[row]} |")
            continue
        cells = [share(bench.ran(row, a)) for a in those]
        lines.append(f"| {row} | {' | '.join(cells)} | {how} |")
    return "\n".join([*lines, *falls(bench, differs)])


def share(runs):
    found = efficiency(runs)
    if found is None:
        return "out of memory" if runs else "–"
    return f"{100 * found:.1f}"


def times(bench, differs):
    """The median step, its least and most over the turns, and how many there were. A turn counts
    where each allocator that has times has one: the machine's speed varies between them."""
    those = bench.args.allocators
    head = ["step, ms", "turns", *map(name, those)]
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (1 + len(those)) + "|"]
    for row, how in differs.items():
        each = [timed(bench.ran(row, a), how.startswith(FAKE)) for a in those]
        if turns := shared(each):
            cells = [span(sorted(found[n] for n in turns if n in found)) for found in each]
            lines.append(f"| {row} | {len(turns)} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 2 else "Of these rows no times are known."


def ratios(bench, differs):
    """Of each model: the steps over the first allocator's of the same turn, over all its rows."""
    those, found = bench.args.allocators, {}
    for row, how in differs.items():
        each = [timed(bench.ran(row, a), how.startswith(FAKE)) for a in those]
        model = found.setdefault(row.split("/")[0], [[] for _ in those])
        for turn, (ratios, runs) in itertools.product(shared(each), zip(model, each)):
            ratios += [runs[turn] / each[0][turn]] if runs else []
    head = [f"a step over {name(those[0])}'s of its turn", "turns", *map(name, those[1:])]
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * len(those) + "|"]
    for model, (first, *others) in found.items():
        if len(first) > 1:
            cells = [span(sorted(ratios), ".3f") for ratios in others]
            lines.append(f"| {model} | {len(first)} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def shared(each):
    """The turns that all have in common, of those that have any."""
    have = [set(found) for found in each if found]
    return set.intersection(*have) if have else set()


def timed(runs, fake):
    """What counts, by turn: beside fake ranks only what is known to be finite."""
    return {
        turn: run["step_ms"]
        for turn, run in runs.items()
        if not run["oom"] and (run.get("finite") or not fake)
    }


def span(found, form=".0f"):
    if not found:
        return "–"
    spread = f" ({found[0]:{form}} to {found[-1]:{form}})" if len(found) > 1 else ""
    return f"{statistics.median(found):{form}}{spread}"


def falls(bench, wanted):
    """By how much of native's each allocator lowers fragmentation, on average over the rows that
    both ran: the paper's other figure."""
    first, *others = bench.args.allocators
    said = []
    for allocator in others:
        both = [[efficiency(bench.ran(row, a)) for a in (first, allocator)] for row in wanted]
        each = [1 - (1 - ours) / (1 - native) for native, ours in both if native and ours]
        if each:
            fall = 100 * statistics.mean(each)
            said.append(f"{name(allocator)} {fall:.1f} % ({len(each)} row{'s' * (len(each) > 1)})")
    return ["", f"Fragmentation falls by, on average: {', '.join(said)}."] if said else []


def efficiency(runs):
    """Allocated over reserved at most, at worst over the runs; None without runs, or memory."""
    if not runs or any(run["oom"] for run in runs.values()):
        return None
    return min(run["peak_allocated"] / run["peak_reserved"] for run in runs.values())


def throughput(found, cap, layers):
    """The fastest configuration of each allocator that fits, how much faster than the first's, and
    all that was tried."""
    lines = [
        f"| allocator | micro-batch in {cap:g} GiB | recomputed | tokens/s | of the first's |",
        "|---|--:|--:|--:|--:|",
    ]
    first = None
    for allocator, (_, best, runs) in found.items():
        if not best:
            lines.append(f"| {name(allocator)} | none fits | | | |")
            continue
        line = f"| {name(allocator)} | {best[0]} | {best[1]} of {layers} |"
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
    lines = [
        f"| micro-batch | recomputed | tokens/s, one run: {' | '.join(map(name, found))} |",
        "|--:" * (2 + len(found)) + "|",
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
