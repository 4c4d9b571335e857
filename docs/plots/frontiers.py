"""Draws docs/figures/frontier.png: the most tokens a second over the memory of the device, by
allocator, and below it the gain over the best peer; from docs/data/frontier*.jsonl.

A panel a model, and a place a size, as in the tables. A size at which an allocator does not train,
or at which only the host's speed says how fast, has no mark.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import frontier  # noqa: E402
import frontier_table  # noqa: E402
import recordings  # noqa: E402

MORE = {"async": "#cc79a7", "offload": "#0072b2"}
SHOWN = ("native", "gmlake", "expandable", "async", "stalloc", "offload")  # the last on top
MOST = 30.0  # percent; a gain above it is written as a figure
ACROSS = 3  # panels, so that a page has room for their words


def models() -> list[tuple[str, list[frontier_table.Row]]]:
    """What was measured of each, by title."""
    found = []
    for data in recordings.ledgers("frontier"):
        args = frontier.parse_arguments(["--json", str(data), "--table"])
        book = frontier.ledger.Ledger(data, 0)
        for name, model in frontier.MODELS.items():
            rows = frontier_table.rows(frontier.Bench(name, args, book))
            if len(rows) > 2:  # with fewer there is only the table
                found.append((model.title, rows))
    return found


def speeds(rows: list[frontier_table.Row], column: str) -> tuple[list[int], list[float]]:
    """Places, and tokens a second."""
    every = [(at, row.found.get(column)) for at, row in enumerate(rows)]
    known = [(at, best.rate) for at, best in every if best and not best.retried]
    return [at for at, _ in known], [rate for _, rate in known]


def gains(rows: list[frontier_table.Row], column: str) -> list[tuple[int, float | None]]:
    """By place, in percent; None: it trains where no peer does. Lower bounds are left out."""
    known = [
        (at, None if best.least else row.gain(column), row.peer() == 0)
        for at, row in enumerate(rows)
        if (best := row.found.get(column))
    ]
    return [(at, gain) for at, gain, alone in known if alone or gain is not None]


def draw(out: Path, plt, colours: dict[str, str]) -> bool:
    """Whether there was anything to draw."""
    every, colours = models(), {**colours, **MORE}
    if not every:
        return False
    across, down = min(ACROSS, len(every)), -(-len(every) // ACROSS)
    figure = plt.figure(figsize=(3.6 * across, 4.1 * down + 0.3), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False).flat
    for number, ((title, rows), part) in enumerate(zip(every, parts)):
        panel, below = part.subplots(2, sharex=True, height_ratios=(3, 1.4))
        for column in SHOWN:
            places, rates = speeds(rows, column)
            panel.plot(
                places, [rate / 1000 for rate in rates], "-o", color=colours[column],
                label=frontier_table.HEADS[column], markersize=4, linewidth=1.2,
                zorder=SHOWN.index(column) + 2,
            )  # fmt: skip
        panel.set_title(title)
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
        for column, beside in (("stalloc", -0.2), ("offload", 0.2)):
            bars(below, gains(rows, column), beside, colours[column])
        below.axhline(0, color="#888888", linewidth=0.6)
        below.set_ylim(-10, MOST + 8)
        below.set_xticks(range(len(rows)), [str(row.size) for row in rows])
        below.tick_params(axis="x", labelsize=8)
        below.set_xlabel("memory for the allocator, GiB")
        if number % across == 0:
            panel.set_ylabel("thousand tokens a second")
            below.set_ylabel("over the best\npeer, %")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center",
                  ncols=len(SHOWN), fontsize=8)  # fmt: skip
    figure.savefig(out / "frontier.png")
    plt.close(figure)
    return True


def bars(axes, known: list[tuple[int, float | None]], beside: float, colour: str) -> None:
    for at, gain in known:
        height = MOST if gain is None else min(gain, MOST)
        axes.bar(at + beside, height, width=0.38, color=colour)
        if gain is None:
            axes.text(at + beside, MOST / 2, "alone", ha="center", va="center", rotation=90,
                      fontsize=7, color="white")  # fmt: skip
        elif gain > MOST:
            axes.text(at + beside, MOST + 1, f"{gain:+.0f}", ha="center", fontsize=6, color=colour)
