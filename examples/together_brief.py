"""Memory and time of together.py's programs under each allocator, as Markdown, for the README and
pages of docs.
"""

import statistics

from names import name
from together_table import above, figure, level, memory, ratios, sets, wall, with_interval
from turns_table import table


def measured(bench):
    """The programs of which there is a set, in which nobody ran out of memory."""
    return [program for program in bench.args.programs if sets(bench, program)]


def over_native(bench, program, allocator):
    """Of each turn: a step's time over native's."""
    return ratios(sets(bench, program), bench.args.every, wall, allocator, "native", False)


def tables(bench, programs):
    """A row for each program: memory, then time."""
    titles = {program: programs[program].title for program in measured(bench)}
    if not titles:
        return "Not measured yet."
    first, *others = bench.args.allocators
    head = ["a step, ms; of native's, 95 %", "turns", name(first), *map(name, others)]
    lines = []
    for program, title in titles.items():
        runs = sets(bench, program)
        step = level(runs, bench.args.every, wall, first)
        each = [over_native(bench, program, allocator) for allocator in others]
        cells = [with_interval(those) for those in each]
        lines.append([title, str(len(each[-1])), figure(step), *cells])
    return "\n\n".join([*sorted(bench.book.places), memory(bench, titles), table(head, lines)])


def brief(bench):
    """A row for memory, median and worst over the programs, and one for time, over all turns."""
    names = sorted(measured(bench))  # as on the other page: a bootstrap depends on the order
    if not names:
        return "Not measured yet."
    head = [f"{len(names)} programs", *map(name, bench.args.allocators)]
    held = ["memory above the peak load, %: median, worst"]
    times = ["a step's time over native's, 95 %", "1"]
    for allocator in bench.args.allocators:
        each = [above(sets(bench, program), allocator) for program in names]
        held.append(f"{statistics.median(each):.1f}, {max(each):.1f}")
    for allocator in bench.args.allocators[1:]:
        each = [ratio for program in names for ratio in over_native(bench, program, allocator)]
        times.append(with_interval(each))
    return table(head, [held, times])
