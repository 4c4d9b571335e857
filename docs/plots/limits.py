"""Draws docs/figures/limit.png: the step's time over the limit, from docs/data/limit*.jsonl.

A panel a program, a curve an allocator; a cross where it ran out of memory. Nothing that was
measured is left out: programs on which nothing is won are there as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import limit  # noqa: E402
import recordings  # noqa: E402

UNLIMITED = 1.58  # where the points without a limit stand


def benches(data: Path) -> list[limit.Bench]:
    """The programs of which anything was measured."""
    args = limit.parse_arguments(["--json", str(data), "--table", "--turns", "99"])
    book = limit.ledger.Ledger(data, 0)
    every = [limit.Bench(name, of, args, book) for name, of in limit.PROGRAMS.items()]
    return [bench for bench in every if any(bench.step(a, None) for a in args.allocators)]


def points(bench: limit.Bench, allocator: str) -> tuple[list, list, float | None]:
    """Limits and steps of the fastest allocator's, and the largest limit that did not suffice."""
    fastest = min(s for a in bench.args.allocators if (s := bench.step(a, None)))
    known = [(at, bench.step(allocator, at)) for at in reversed(bench.limits(allocator))]
    known.append((None, bench.step(allocator, None)))
    drawn = [(UNLIMITED if at is None else at, step / fastest) for at, step in known if step]
    dead = [at for at in bench.limits(allocator) if bench.fits(allocator, at) is False]
    return [x for x, _ in drawn], [y for _, y in drawn], max(dead, default=None)


def draw(out: Path, plt, colours: dict[str, str], names: dict[str, str]) -> bool:
    """Whether there was anything to draw."""
    every = [bench for data in recordings.ledgers("limit") for bench in benches(data)]
    if not every:
        return False
    across = min(len(every), 3)
    down = -(-len(every) // across)
    size = (2.8 * across + 0.6, 2.5 * down + 0.6)
    size = (max(size[0], 6.5), max(size[1], 4.2))  # the words beside need as much
    figure, panels = plt.subplots(down, across, figsize=size, squeeze=False)
    for panel in panels.flat[len(every) :]:
        panel.axis("off")
    for bench, panel in zip(every, panels.flat):
        for allocator in bench.args.allocators:
            xs, ys, dead = points(bench, allocator)
            panel.plot(xs, ys, "-o", color=colours[allocator], markersize=3, linewidth=1.1)
            if dead is not None and ys:
                panel.plot([dead], [ys[0]], "x", color=colours[allocator], markersize=7)
        panel.set_title(bench.program.title)
        panel.set_xticks([1, 1.1, 1.2, 1.3, 1.5, UNLIMITED], ["1", "1.1", "1.2", "1.3", "", "none"])
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    figure.supxlabel("limit, of the memory that live tensors need at once", fontsize=9)
    figure.supylabel("median step, fastest without a limit = 1", fontsize=9)
    handles = [plt.Line2D([], [], color=colours[a], marker="o") for a in every[0].args.allocators]
    figure.legend(
        handles, [names[a] for a in every[0].args.allocators], loc="upper center", ncols=3
    )
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    figure.savefig(out / "limit.png")
    return True
