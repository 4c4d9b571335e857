"""Replays the recordings through the STAlloc paper's allocator, into docs/paper.md: `make paper`.

Each recording four times: with both starts and with the second alone, with streams respected and
ignored. Results are kept one by one in docs/data/paper.json, and go on where they were, as
recordings.py's do, whose results the other allocators' figures are of.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import recordings
from recordings import ROOT, put, said
from tables import GIB, TITLES, excess, needed, over

DATA = ROOT / "docs" / "data" / "paper.json"
PAGE = ROOT / "docs" / "paper.md"
MARK = "the paper's allocator: written by make paper"
# By the name in tables: what replay is told.
KINDS = {
    "paper": [],
    "paper, second start": ["--warm"],
    "as published": ["--ignore-streams"],
    "as published, second start": ["--warm", "--ignore-streams"],
}
PEERS = ["native", "expandable", "gmlake", "stalloc"]
NAMES = {"expandable": "expandable segments", "gmlake": "GMLake"}
KEEP = [
    "fits_in_bytes", "full_speed_in_bytes", "fragmentation", "peak_load_bytes",
    "peak_reserved_bytes", "requests", "hits", "misses", "steady_driver_time_us", "steady_time_us",
    "steady_retries",
]  # fmt: skip

# By kind, group and name of the recording.
Key = tuple[str, str, str]
Ledger = dict[Key, dict]


def kept() -> Ledger:
    lines = DATA.read_text().splitlines() if DATA.exists() else []
    return {(r["kind"], r["group"], r["trace"]): r for r in map(json.loads, lines)}


def save(found: Ledger) -> None:
    beside = DATA.with_suffix(".new")
    beside.write_text("".join(json.dumps(found[key]) + "\n" for key in sorted(found)))
    beside.replace(DATA)


def replay(binary: str, key: Key, path: Path, serves: str) -> dict:
    kind, group, name = key
    flags = ["--allocator", "paper", "--smallest", "--json", *KINDS[kind]]
    r = json.loads(said(binary, "replay", *flags, str(path)))
    figures = {figure: r[figure] for figure in KEEP if figure in r}
    return {"kind": kind, "group": group, "trace": name, "serves": serves, **figures}


def merged(found: Ledger, others: recordings.Results) -> recordings.Results:
    """All allocators by recording."""
    rows: recordings.Results = {}
    for (kind, group, name), result in found.items():
        rows.setdefault((group, name), dict(others[group, name]))[kind] = result
    return rows


def columns() -> list[str]:
    return [*PEERS, *KINDS]


def summary(rows: recordings.Results) -> list[str]:
    """Median, average and worst of both figures, a row an allocator."""
    lines = ["| | to fit | at full speed | waste |", "|---|--:|--:|--:|"]
    for name in columns():
        cells = []
        for key in ("fits_in_bytes", "full_speed_in_bytes"):
            told = [
                of for of in rows.values()
                if key == "fits_in_bytes" or of["stalloc"]["steady_time_us"]
            ]  # fmt: skip
            figures = [x for of in told if (x := excess(of, name, key)) is not None]
            never = f"; never: {len(told) - len(figures)}" if len(figures) < len(told) else ""
            cells.append(three(figures) + never)
        cells.append(three([100 * of[name]["fragmentation"] for of in rows.values()]))
        lines.append(f"| {NAMES.get(name, name)} | {' | '.join(cells)} |")
    return lines


def repeating(rows: recordings.Results) -> recordings.Results:
    """Those of which nine requests in ten are served as planned."""
    return {
        key: of for key, of in rows.items()
        if of["as published"]["hits"] >= 0.9 * of["as published"]["requests"]
    }  # fmt: skip


def three(figures: list[float]) -> str:
    shown = (statistics.median(figures), statistics.mean(figures), max(figures))
    return ", ".join(f"{x:.1f}" for x in shown)


def better(rows: recordings.Results) -> list[str]:
    """Where each kind fits in less, and is at full speed in less, than stalloc."""
    lines = []
    for kind in KINDS:
        for words, key in (
            ("fits in less", "fits_in_bytes"),
            ("is at full speed in less", "full_speed_in_bytes"),
        ):
            won = [
                name for (_, name), of in sorted(rows.items())
                if needed(of[kind], key) < needed(of["stalloc"], key)
            ]  # fmt: skip
            which = f": {', '.join(won)}" if won else ""
            lines.append(f"- **{kind}** {words} than stalloc in {len(won)} of {len(rows)}{which}.")
    return lines


def table(rows: recordings.Results) -> list[str]:
    """Memory to fit above the load, by recording, and how many requests were served as planned."""
    heads = [NAMES.get(name, name) for name in columns()]
    lines = [
        f"| recording | load, GiB | {' | '.join(heads)} | hits |",
        "|---" + "|--:" * (len(heads) + 2) + "|",
    ]
    for (_, name), of in sorted(rows.items()):
        load = of["stalloc"]["peak_load_bytes"]
        fits = " | ".join(over(of[column].get("fits_in_bytes"), load) for column in columns())
        hits = 100 * of["as published"]["hits"] / of["as published"]["requests"]
        lines.append(f"| {name} | {load / GIB:.2f} | {fits} | {hits:.0f} |")
    return lines


def page(found: Ledger, others: recordings.Results) -> list[str]:
    rows = merged(found, others)
    ours = ", ".join(sorted({r["serves"] for r in found.values()}))
    theirs = ", ".join(sorted({r["serves"] for of in others.values() for r in of.values()}))
    refused = sorted(name for (kind, _, name), r in found.items()
                     if kind == "as published" and not r["hits"])  # fmt: skip
    lines = [
        f"What serves is as of commit {ours}, for the other allocators {theirs}.",
        "",
        f"Memory above the peak load, in %: median, average and worst of {len(rows)} recordings; "
        "waste is of 80 GiB, in % of what is reserved:",
        "",
        *summary(rows),
        "",
        f"The same for the {len(repeating(rows))} of which nine requests in ten come as planned:",
        "",
        *summary(repeating(rows)),
        "",
        *better(rows),
        "",
        f"In {len(refused)} of {len(rows)} recordings no plan is better than none, and native "
        f"serves: {', '.join(refused)}.",
    ]
    for group, title in TITLES.items():
        of = {key: row for key, row in rows.items() if key[0] == group}
        lines += ["", f"Recordings {title}: memory to fit in above the load, in %; hits as "
                  "published, in % of all requests:", "", *table(of)]  # fmt: skip
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin none after them")
    parser.add_argument("--jobs", type=int, default=2, help="replays at a time")
    parser.add_argument("--table", action="store_true", help="replay nothing")
    args = parser.parse_args()
    serves, start = recordings.version(), time.monotonic()
    files = {(kind, *key): path for key, path in recordings.files().items() for kind in KINDS}
    found = {key: r for key, r in kept().items() if key in files}
    stale = [key for key in files if key not in found or found[key]["serves"] != serves]
    lock, left = threading.Lock(), 0

    def one(key: Key) -> None:
        nonlocal left
        if args.budget and time.monotonic() - start > args.budget:
            left += 1
            return
        result = replay(args.binary, key, files[key], serves)
        with lock:
            found[key] = result
            save(found)

    if not args.table:
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(one, stale))
    if left:
        print(f"{left} of {len(files)} replays are left: run this again", file=sys.stderr)
        return 1
    put(PAGE, MARK, page(found, recordings.kept()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
