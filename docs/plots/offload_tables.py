"""Puts the tables of docs/offload.md into it, from docs/data/offload.jsonl: `make figures`.

A line of the ledger is a run. `beside` says what else ran on its host. A run with offloading is
compared with native's of the same commit, and of the one that it names as `native` if its own has
none.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator

import recordings

sys.path.insert(0, str(recordings.ROOT / "examples"))

import names  # noqa: E402
import offload_activations_table  # noqa: E402
import offload_largest  # noqa: E402
import pairs  # noqa: E402
from offload_trial import WAYS  # noqa: E402
from together_table import LEAST  # noqa: E402
from turns_table import cell, interval, table  # noqa: E402

DATA = recordings.FOLDER / "offload.jsonl"
PAGE = recordings.ROOT / "docs" / "offload.md"
GIB = 1 << 30
TIMED = 5  # steps of a trial that is no mere search, at least
ALL, ALIKE = "all steps", "the host equally fast"
# What ran on the host's other GPUs.
BUSY = {None: "none", "a program on one other GPU": "1", "programs on three other GPUs": "3"}
# What the page calls the ways of activations' runs, and of the largest model.
ACTIVATIONS = {
    "nothing, no limit": "nothing offloaded",
    "stalloc, no limit": "`offload_activations`",
    "nothing, limit at 0.90": "nothing offloaded",
    "stalloc, limit at 0.90": "`offload_activations`",
    "recomputed, no limit": "all recomputed",
    "TRL": "TRL's `OffloadActivations`",
    "stalloc at the peak of TRL": "`offload_activations`, what TRL's held",
}
RECOMPUTED = "recomputed, no limit"
LARGEST = {
    "stalloc, offload": "stalloc, states offloaded",
    "bitsandbytes PagedAdamW": "bitsandbytes' `PagedAdamW`",
    "torchao CPUOffloadOptimizer": "torchao's `CPUOffloadOptimizer`",
}
Rows = list[dict]


def shown(values: list[float], form: str) -> str:
    """The median, and of several values the least and the most."""
    return cell(dict(enumerate(values)), float, form)


def speeds(rows: Rows) -> str:
    return shown([row["tokens/s"] for row in rows], "{:,.0f}")


def grouped(rows: Rows, *keys: str) -> dict[tuple, Rows]:
    found: dict[tuple, Rows] = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return found


def steps(rows: Rows) -> list[str]:
    """Timed steps: a row for each limit, commit and host, the newest first. Runs with a trace and
    longer ones are not among them."""
    runs = [row for row in rows if row["part"] == "steps" and not traced(row)]
    natives = grouped([r for r in runs if r["way"] == "native"], "commit", "beside")
    ours = grouped([r for r in runs if r["way"] == "offload"], "limit, GiB", "commit", "beside")
    lines = []
    for (limit, commit, beside), some in reversed(ours.items()):
        those = natives[some[0].get("native", commit), beside]
        if limit:  # these did not take turns with native
            middle = statistics.median(row["tokens/s"] for row in those)
            found = [", ".join(f"{row['tokens/s'] / middle:.2f}" for row in some), ""]
        else:
            those = [row for row in those if row["turn"] in {run["turn"] for run in some}]
            said = [row for row in rows if row["part"] == "ratio" and row["commit"] == commit]
            found = [ratio(some, those, said, of) for of in (ALL, ALIKE)]
        cells = [str(limit or 24), commit, BUSY[beside], str(len(some)), speeds(some)]
        lines.append([*cells, speeds(those), *found])
    heads = ["GiB", "commit", "other GPUs at work", "runs", "`offload`, tokens/s"]
    heads += ["native, no limit", "of native's speed", ALIKE]
    return table(heads, sorted(lines, key=lambda cells: -int(cells[0]))).splitlines()


def traced(row: dict) -> bool:
    return "--keep" in row.get("command", "")


def ratio(ours: Rows, natives: Rows, said: Rows, of: str) -> str:
    """Native's time over ours: the median over the turns, with its interval. Runs of which no steps
    were kept had theirs computed when they were made."""
    each = [one for row in said if row["of"] == of for one in row["turns"]]
    if "each, ms" in ours[0]:
        by_turn = {row["turn"]: row for row in natives}
        ours = [row for row in ours if row["turn"] in by_turn]
        each = list(pairs.ratios(ours, [by_turn[row["turn"]] for row in ours], of == ALIKE))
    if len(each) < LEAST:
        return ", ".join(f"{one:.2f}" for one in each) or "–"
    low, high = interval(each)
    return f"{statistics.median(each):.2f} ({low:.2f} to {high:.2f})"


def trials(rows: Rows) -> Iterator[dict]:
    """The timed runs of a number of layers."""
    for row in rows:
        said = row.get("said", {})
        if row["part"] == "trial" and row.get("of", {}).get("steps", 0) >= TIMED:
            layers = {"way": row["of"]["way"], "limit, GiB": row["of"]["limit"]}
            row = {**row, **layers, "layers": row["of"]["layers"], **said}
        if row["part"] in ("largest", "trial") and "tokens/s" in row:
            yield row


def largest(rows: Rows) -> list[str]:
    """The newest number of layers that was found for each way, and all timed runs of it."""
    found, lines = grouped(list(trials(rows)), "limit, GiB", "way"), []
    options = offload_largest.parse_arguments(["--json", str(DATA)])
    layer, rest = offload_largest.layer_of(options)
    for limit in sorted({limit for limit, _ in found}):
        for way in WAYS:
            some = found.get((limit, way), [])
            some = [row for row in some if row["layers"] == some[-1]["layers"]]
            if some:
                layers = some[-1]["layers"]
                timed = {(f"{row['tokens/s']:,}", row["commit"]): 1 for row in some}
                size = f"{(layers * layer + rest) / 1e9:.2f}"
                lines.append([
                    f"{limit:.0f}", LARGEST.get(way, names.name(way)), str(layers), size,
                    *("; ".join(one[i] for one in timed) for i in (0, 1)),
                ])  # fmt: skip
    heads = ["GiB", "", "layers", "billions of parameters", "tokens/s", "commit"]
    return table(heads, lines).splitlines()


def activations(rows: Rows) -> list[str]:
    """The newest runs way by way, then what those of each commit say."""
    runs = grouped([row for row in rows if row["part"] == "activations"], "commit")
    newest = grouped(list(runs.values())[-1], "way")
    lines = []
    for way, name in ACTIVATIONS.items():
        some = newest[way,]
        good = [row for row in some if "failed" not in row]
        limit = some[0]["limit"]
        cells = [name, f"{limit / GIB:.1f}" if limit else "none", str(len(some))]
        if good:
            out = [row["out"] / GIB for row in good if "out" in row]
            cells += [shown([row["held"] / GIB for row in good], "{:.1f}"), speeds(good)]
            cells += [of_speed(good, newest[RECOMPUTED,]), shown(out, "{:.1f}") if out else ""]
        else:
            cells += ["", some[0]["failed"], "", ""]
        lines.append(cells)
    heads = ["", "limit, GiB", "runs", "held, GiB", "tokens/s", "of recomputation"]
    ways = table([*heads, "to the host a step, GiB"], lines)
    lines = []
    for (commit,), some in reversed(runs.items()):
        by = grouped(some, "way")
        cells = [of_speed(by["stalloc, limit at 0.90",], by[RECOMPUTED,])]
        cells += [of_speed(by["stalloc, no limit",], by["nothing, no limit",])]
        lines.append([commit, BUSY[some[0].get("beside")], *cells])
    heads = ["`offload_activations`", "other GPUs at work", "under the limit, of recomputation"]
    heads += ["where all fits, of nothing offloaded"]
    return [*ways.splitlines(), "", *table(heads, lines).splitlines()]


def of_speed(ours: Rows, theirs: Rows) -> str:
    return shown(offload_activations_table.ratios(ours, theirs), "{:.3f}")


def pages() -> dict[str, list[str]]:
    """What stands between the marks."""
    rows = [json.loads(line) for line in DATA.read_text().splitlines()]
    return {
        f"{part.__name__}: written by make figures": part(rows)
        for part in (steps, largest, activations)
    }
