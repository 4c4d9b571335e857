"""Scores simulators on the recordings kept apart, into docs/score.md: `make leaderboard`.

Each simulator serves tests/traces/apart by the protocol of `stalloc score`, on 80 GiB and on the
smallest devices. Results are kept one by one in docs/data/leaderboard.json, and go on where they
were, as recordings.py's do. One of your own is scored, and shown among the others, by

    python docs/plots/leaderboard.py --name mine -- ./simulator
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

DATA = ROOT / "docs" / "data" / "leaderboard.json"
PAGE = ROOT / "docs" / "score.md"
MARK = "leaderboard: written by make leaderboard"
TRACES = ROOT / "tests" / "traces" / "apart"
OURS = ("native", "expandable", "gmlake", "paper", "stalloc")
TITLES = {
    "native": "PyTorch, native", "expandable": "PyTorch, expandable segments", "gmlake": "GMLake",
    "paper": "the STAlloc paper's, with its restart", "stalloc": "stalloc",
    "first_fit": "first fit (`examples/first_fit.py`)",
}  # fmt: skip
STITCHED = ("gmlake", "stalloc")
KEEP = ("fragmentation", "peak_load_bytes", "peak_reserved_bytes", "fits_in_bytes",
        "full_speed_in_bytes", "retries")  # fmt: skip

# By simulator and recording.
Ledger = dict[tuple[str, str], dict]


def commands(binary: str) -> dict[str, list[str]]:
    own = {name: [binary, "simulate", "--allocator", name, "{}"] for name in OURS}
    return own | {"first_fit": [sys.executable, "examples/first_fit.py"]}


def kept() -> Ledger:
    lines = DATA.read_text().splitlines() if DATA.exists() else []
    return {(r["simulator"], r["trace"]): r for r in map(json.loads, lines)}


def save(found: Ledger) -> None:
    beside = DATA.with_suffix(".new")
    beside.write_text("".join(json.dumps(found[key]) + "\n" for key in sorted(found)))
    beside.replace(DATA)


def files() -> dict[str, Path]:
    return {path.name.removesuffix(".csv.gz"): path for path in sorted(TRACES.glob("*.csv.gz"))}


def score(binary: str, name: str, command: list[str], path: Path, serves: str) -> dict:
    flags = ["--smallest", "--json", *(["--stitched"] if name in STITCHED else [])]
    r = json.loads(said(binary, "score", *flags, str(path), "--", *command))
    figures = {figure: r[figure] for figure in KEEP if figure in r}
    return {"simulator": name, "trace": r["trace"], "serves": serves, **figures}


def table(found: Ledger) -> list[str]:
    """A row a simulator, the one with the least to fit first."""
    rows = []
    for name in sorted({name for name, _ in found}):
        of = [r for (simulator, _), r in found.items() if simulator == name]

        def above(key: str, of: list[dict] = of) -> list[float]:
            return [100 * (r[key] / r["peak_load_bytes"] - 1) for r in of if r.get(key)]

        fits, speed = above("fits_in_bytes"), above("full_speed_in_bytes")
        cells = [three(fits), three(speed), three([100 * r["fragmentation"] for r in of])]
        if 0 < len(speed) < len(of):
            cells[1] += f"; never: {len(of) - len(speed)}"
        line = f"| {TITLES.get(name, name)} | {' | '.join(cells)} |"
        rows.append((statistics.median(fits), line))
    ordered = [line for _, line in sorted(rows)]
    return ["| simulator | to fit | at full speed | waste |", "|---|--:|--:|--:|", *ordered]


def three(figures: list[float]) -> str:
    if not figures:
        return "not told"
    shown = (statistics.median(figures), statistics.mean(figures), max(figures))
    return ", ".join(f"{x:.1f}" for x in shown)


def page(found: Ledger) -> list[str]:
    commits = ", ".join(sorted({r["serves"] for r in found.values()}))
    return [f"What serves is as of commit {commits}.", "", *table(found)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin none after them")
    parser.add_argument("--jobs", type=int, default=2, help="recordings at a time")
    parser.add_argument("--table", action="store_true", help="score nothing")
    parser.add_argument("--name", default="yours", help="of your own simulator")
    parser.add_argument("command", nargs="*", help="your own simulator, which is not kept")
    args = parser.parse_args()
    found, there, start = kept(), files(), time.monotonic()
    if args.command:
        for path in there.values():
            r = score(args.binary, args.name, args.command, path, "yours")
            found[args.name, r["trace"]] = r
        print("\n".join(table(found)))
        return 0
    serves, every = recordings.version(), commands(args.binary)
    found = {key: r for key, r in found.items() if key[0] in every and key[1] in there}
    stale = [
        (name, trace) for trace in there for name in every
        if found.get((name, trace), {}).get("serves") != serves
    ]  # fmt: skip
    lock, left = threading.Lock(), 0

    def one(key: tuple[str, str]) -> None:
        nonlocal left
        if args.budget and time.monotonic() - start > args.budget:
            left += 1
            return
        name, trace = key
        result = score(args.binary, name, every[name], there[trace], serves)
        with lock:
            found[key] = result
            save(found)

    if not args.table:
        stale.sort(key=lambda key: there[key[1]].stat().st_size)
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(one, stale))
    if left:
        print(f"{left} scores are left: run this again", file=sys.stderr)
        return 1
    put(PAGE, MARK, page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
