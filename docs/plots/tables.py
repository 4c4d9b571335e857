"""The tables of recordings, in docs/tables.md and the README, from what was replayed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

TITLES = {
    "tuned": "that the allocator was made with (`tests/traces`)",
    "more": "that it was tried on now and then (`tests/traces/more`)",
    "apart": "kept apart from all tuning (`tests/traces/apart`)",
}
ALLOCATORS = ["native", "expandable", "gmlake", "stalloc"]
NAMES = {"gmlake": "GMLake"}
GIB = 1 << 30

Results = dict[tuple[str, str], dict[str, dict]]  # by group and name, by allocator


def over(size: int | None, load: int) -> str:
    """How much more than the load, in percent."""
    return f"{100 * (size / load - 1):.1f}" if size else "never"


def excess(of: dict[str, dict], allocator: str, key: str) -> float | None:
    """The same as a number; None where there is no figure."""
    size = of[allocator].get(key)
    return 100 * (size / of[allocator]["peak_load_bytes"] - 1) if size else None


def sizes_table(rows: dict[str, dict[str, dict]]) -> list[str]:
    """The two figures of each recording: memory above the load, in percent."""
    names = [NAMES.get(a, a) for a in ALLOCATORS]
    across = " | ".join(names)
    lines = [
        f"| recording | load, GiB | fits: {across} | full speed: {across} |",
        "|---" + "|--:" * (1 + 2 * len(ALLOCATORS)) + "|",
    ]
    for name, of in rows.items():
        load = of["stalloc"]["peak_load_bytes"]
        fits = [over(of[a].get("fits_in_bytes"), load) for a in ALLOCATORS]
        if of["stalloc"]["steady_time_us"]:
            speed = [over(of[a].get("full_speed_in_bytes"), load) for a in ALLOCATORS]
        else:
            speed = ["–"] * len(ALLOCATORS)
        lines.append(f"| {name} | {load / GIB:.2f} | " + " | ".join(fits + speed) + " |")
    for title, summary in (("average", lambda x: sum(x) / len(x)), ("worst", max)):
        cells = []
        for key in ("fits_in_bytes", "full_speed_in_bytes"):
            for a in ALLOCATORS:
                figures = [x for of in rows.values() if (x := excess(of, a, key)) is not None]
                told = sum(
                    key == "fits_in_bytes" or of[a]["steady_time_us"] > 0 for of in rows.values()
                )
                cell = f"{summary(figures):.1f}" if figures else "–"
                if len(figures) < told:
                    cell += f" of {len(figures)}/{told}"
                cells.append(f"**{cell}**")
        lines.append(f"| **{title}** | | " + " | ".join(cells) + " |")
    return lines


def waste_table(rows: dict[str, dict[str, dict]]) -> list[str]:
    """What is reserved where 80 GiB are there."""
    names = [NAMES.get(a, a) for a in ALLOCATORS]
    lines = [
        "| recording | " + " | ".join(names) + " | hits | driver: GMLake | stalloc |",
        "|---" + "|--:" * (len(ALLOCATORS) + 3) + "|",
    ]

    def driver(result: dict) -> str:
        spent = result["steady_time_us"]
        return f"{100 * result['steady_driver_time_us'] / spent:.2f}" if spent else "–"

    for name, of in rows.items():
        waste = " | ".join(f"{100 * of[a]['fragmentation']:.2f}" for a in ALLOCATORS)
        hits = 100 * of["stalloc"]["hits"] / of["stalloc"]["requests"]
        shares = f"{driver(of['gmlake'])} | {driver(of['stalloc'])}"
        lines.append(f"| {name} | {waste} | {hits:.1f} | {shares} |")
    means = [
        100 * sum(of[a]["fragmentation"] for of in rows.values()) / len(rows) for a in ALLOCATORS
    ]
    lines.append("| **average** | " + " | ".join(f"**{mean:.2f}**" for mean in means) + " | | | |")
    return lines


def summary(found: Results, short: bool = False) -> list[str]:
    """Both figures in a table, of what was kept apart first, and where expandable segments win;
    `short`: of what was kept apart alone.
    """
    apart = [of for (group, _), of in found.items() if group == "apart"]
    rest = [of for (group, _), of in found.items() if group != "apart"]
    lines = [
        "Memory above the peak load, the most that live tensors need at once, in %: median, "
        "average, worst.",
        "",
        "| | native | expandable segments | stalloc |",
        "|---|--:|--:|--:|",
    ]
    for rows, whose in (
        (apart, f"{len(apart)} runs that nothing was tuned on"),
        (rest, f"{len(rest)} others"),
    ):
        if rows and (rows is apart or not short):
            lines.append(three(f"{whose}: to fit", "fits_in_bytes", rows))
            lines.append(three("at full speed", "full_speed_in_bytes", steady(rows)))
    counts = []
    for key, rows in (
        ("fits_in_bytes", list(found.values())),
        ("full_speed_in_bytes", steady(found.values())),
    ):
        less = sum(needed(of["expandable"], key) < needed(of["stalloc"], key) for of in rows)
        counts.append(f"{less} of {len(rows)}")
    lines += [
        "",
        f"Expandable segments fit in less memory than stalloc in {counts[0]}, run at full speed in "
        f"less in {counts[1]}.",
    ]
    return lines


def steady(rows: Iterable[dict[str, dict]]) -> list[dict[str, dict]]:
    """Those that have a steady part."""
    return [of for of in rows if of["stalloc"]["steady_time_us"]]


def three(title: str, key: str, rows: list[dict[str, dict]]) -> str:
    """A row of the summary: median, average and worst of each allocator, and how often never."""
    cells = []
    for allocator in ("native", "expandable", "stalloc"):
        figures = [x for of in rows if (x := excess(of, allocator, key)) is not None]
        never = len(rows) - len(figures)
        of_all = [f(figures) for f in (statistics.median, statistics.mean, max)] if figures else []
        parts = [", ".join(f"{x:.1f}" for x in of_all)] if figures else []
        parts += [f"never: {never} of {len(rows)}"] if never else []
        cells.append("; ".join(parts))
    return f"| {title} | {' | '.join(cells)} |"


def needed(result: dict, key: str) -> float:
    """A figure in bytes; where there is none, more than any."""
    return result.get(key) or math.inf


def rows_of(found: Results, group: str) -> dict[str, dict[str, dict]]:
    return {name: of for (of_group, name), of in sorted(found.items()) if of_group == group}


def pages(found: Results) -> dict[str, list[str]]:
    """What stands between the marks of docs/tables.md."""
    commits = sorted({r["serves"] for of in found.values() for r in of.values()})
    about = f"`stalloc replay --smallest --json`, what serves as of commit {', '.join(commits)}."
    sizes, waste = [about], []
    for group, title in TITLES.items():
        rows = rows_of(found, group)
        if rows:
            sizes += ["", f"Recordings {title}:", "", *sizes_table(rows)]
            waste += [*([""] if waste else []), f"Recordings {title}:", "", *waste_table(rows)]
    return {"sizes": sizes, "waste": waste}
