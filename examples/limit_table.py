"""What limit.py has measured so far, as Markdown tables. A dash: not measured."""


def tables(benches):
    parts = sorted(benches[0].book.places) if benches else []
    for bench in benches:
        parts += [f"### {bench.program.title}", about(bench), curve(bench), knees(bench)]
        parts.append(largest(bench))
    return "\n\n".join(part for part in parts if part)


def about(bench):
    try:
        live = bench.known(bench.args.allocators[0], None, 0, True)["peak_load"]
    except KeyError:
        return "Not measured."
    turns = max(len(bench.results(allocator, None)) for allocator in bench.args.allocators)
    text = f"`{bench.program.script} {bench.program.options}`; {turns} turn{'s'[: turns > 1]}; "
    text += f"peak load {live / (1 << 30):.2f} GiB"
    ends = list(bench.checksums())
    if all(ends):
        same = "the same bits" if len(set(ends)) == 1 else "NOT the same bits"
        text += f"; {same} in the weights of all {len(ends)} runs that came to their end"
    return f"{text}."


def row(name, cells):
    return f"| {name} | " + " | ".join(cells) + " |"


def curve(bench):
    """Median step in ms, its least and most over the turns, and retries in the steady part."""
    allocators = bench.args.allocators
    limits = sorted({limit for a in allocators for limit in bench.limits(a)}, reverse=True)
    lines = [row("limit / peak load", allocators), "|---" + "|--:" * len(allocators) + "|"]
    for limit in (None, *limits):
        cells = [point(bench, allocator, limit) for allocator in allocators]
        if any(cell != "–" for cell in cells):
            lines.append(row("none" if limit is None else f"{limit:g}", cells))
    return "\n".join(lines) if len(lines) > 2 else ""


def point(bench, allocator, limit):
    runs = [run for run in bench.results(allocator, limit) if not run["oom"]]
    if runs:
        text = f"{bench.step(allocator, limit):.1f}"
        if len(runs) > 1:
            times = [run["step_ms"] for run in runs]
            text += f" ({min(times):.1f} to {max(times):.1f})"
        retries = max(run["steady_retries"] for run in runs)
        return text + (f", {retries} retries" if retries else "")
    fits = bench.fits(allocator, limit)
    if fits is None and limit is not None and bench.dead(allocator, limit):
        fits = False
    return {None: "–", True: "fits", False: "out of memory"}[fits]


def knees(bench):
    """Where memory ends and where full speed does, as multiples of the peak load."""
    lines = ["| allocator | fits in | at full speed in |", "|---|--:|--:|"]
    for allocator in bench.args.allocators:
        if not bench.limits(allocator):
            continue
        cells = []
        for suffices in (bench.fits, bench.fast):
            try:
                cells.append(knee(bench, allocator, suffices))
            except (TypeError, ValueError):  # some allocator was not run without a limit
                cells.append("–")
        lines.append(row(allocator, cells))
    return "\n".join(lines) if len(lines) > 2 else ""


def knee(bench, allocator, suffices):
    low, high = bench.bracket(allocator, suffices)
    if high is not None:
        return f"{high:g}" + (f" (not in {low:g})" if low > 1 else "")
    return f"more than {low:g}" if suffices(allocator, None) else "never"


def largest(bench):
    """The largest size at the cap, and its throughput."""
    program = bench.program
    head = f"{program.size.lstrip('-')} at {bench.args.cap:g} GiB"
    lines = [f"| allocator | {head} | tokens/s | step, ms | retries |", "|---|--:|--:|--:|--:|"]
    for allocator in bench.args.allocators:
        best = None
        for key, run in bench.larger(allocator):
            if key["steps"] is None and not run["oom"] and (not best or key["size"] > best[0]):
                best = key["size"], run
        if best:
            size, run = best
            cells = [str(size * program.unit), f"{run['per_second']:,.0f}"]
            lines.append(row(allocator, [*cells, f"{run['step_ms']:.1f}", str(run["retries"])]))
    return "\n".join(lines) if len(lines) > 2 else ""
