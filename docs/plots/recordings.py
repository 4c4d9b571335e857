"""Replays the recordings anew, and puts their tables into docs/tables.md: `make recordings`.

Each recording goes through every allocator with memory to spare, and then on smaller and smaller
devices, until the smallest is found that it fits in, and the smallest on which it runs at full
speed (`stalloc replay --smallest`). Results are kept one by one in docs/data/recordings.json: what
is there and none older than the last change of what serves is not replayed again, so a run that
was stopped, or whose --budget is spent, goes on where it was.

    python docs/plots/recordings.py --budget 600     # ten minutes, then again
    python docs/plots/recordings.py --table          # the tables alone, from what is there
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tables import ALLOCATORS, Results, pages, summary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "data"
DATA = FOLDER / "recordings.json"
TABLES = ROOT / "docs" / "tables.md"
SUMMARISED = {ROOT / "README.md": True, ROOT / "docs" / "benchmarks.md": False}  # which in short
TRACES = ROOT / "tests" / "traces"
# In the order of the tables. What the allocator was made with, what it was tried on now and then,
# and what other people wrote, recorded after all mechanisms were there.
GROUPS = {"tuned": TRACES, "more": TRACES / "more", "apart": TRACES / "apart"}
# What decides how a recording is served, and how it is replayed.
SERVES = ["actors", "baseline", "cuda", "engine", "internal", "plan", "replay", "stream", "trace"]


def ledgers(part: str) -> list[Path]:
    """What examples/ has measured of a part: turns.jsonl, which `make figures` goes on with, and
    what other machines have beside it.
    """
    return sorted(FOLDER.glob(f"{part}*.jsonl"), key=lambda path: len(path.name))


def said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def version() -> str:
    """The last commit that changed what serves, marked if something is not committed."""
    commit = said("git", "log", "-1", "--format=%h", "--abbrev=7", "--", *SERVES).strip()
    return commit + ("+" if said("git", "status", "--porcelain", "--", *SERVES).strip() else "")


def digest() -> str:
    """Of all figures in the data, whatever commit they are of. Pictures say of which they are."""
    rows = [{**json.loads(line), "serves": ""} for line in DATA.read_text().splitlines()]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def kept() -> Results:
    found: Results = {}
    if DATA.exists():
        for line in DATA.read_text().splitlines():
            result = json.loads(line)
            found.setdefault((result["group"], result["trace"]), {})[result["allocator"]] = result
    return found


def save(found: Results) -> None:
    lines = [
        json.dumps(of[allocator])
        for (group, name), of in sorted(found.items(), key=place)
        for allocator in ALLOCATORS
        if allocator in of
    ]
    beside = DATA.with_suffix(".new")
    beside.write_text("\n".join(lines) + "\n")
    beside.replace(DATA)


def place(item: tuple[tuple[str, str], dict]) -> tuple[int, str]:
    (group, name), _ = item
    return list(GROUPS).index(group), name


def files() -> dict[tuple[str, str], Path]:
    return {
        (group, path.name.removesuffix(".csv.gz")): path
        for group, folder in GROUPS.items()
        for path in sorted(folder.glob("*.csv.gz"))
    }


def replay(binary: str, path: Path, group: str, serves: str) -> dict[str, dict]:
    of = {}
    for line in said(binary, "replay", "--smallest", "--json", str(path)).splitlines():
        result = json.loads(line)
        result.pop("version", None)  # of the format, not of the result
        result["steps"] = [{"driver_time_us": s["driver_time_us"]} for s in result["steps"]]
        of[result["allocator"]] = {"group": group, "serves": serves, **result}
    return of


SUMMARY = "two figures: written by make recordings"


def put(page: Path, mark: str, lines: list[str]) -> None:
    """Puts lines into a page, between a mark and the next end."""
    mark = f"<!-- {mark} -->\n"
    before, rest = page.read_text().split(mark)
    page.write_text(before + mark + "\n".join(lines) + "\n" + rest[rest.index("<!-- end -->") :])


def write_tables(found: Results) -> None:
    for page, short in SUMMARISED.items():
        put(page, SUMMARY, summary(found, short))
    for name, lines in pages(found).items():
        put(TABLES, f"{name}: written by make recordings", lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin none after them")
    parser.add_argument("--jobs", type=int, default=2, help="recordings at a time")
    parser.add_argument("--table", action="store_true", help="replay nothing")
    args = parser.parse_args()
    found, there, serves, start = kept(), files(), version(), time.monotonic()
    for gone in set(found) - set(there):
        del found[gone]
    stale = [
        key
        for key in there
        if set(found.get(key, {})) != set(ALLOCATORS)
        or any(r["serves"] != serves for r in found[key].values())
    ]
    left, lock = 0, threading.Lock()

    def one(key: tuple[str, str]) -> None:
        nonlocal left
        if args.budget and time.monotonic() - start > args.budget:
            left += 1
            return
        of = replay(args.binary, there[key], key[0], serves)
        print(f"{key[1]}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        with lock:
            found[key] = of
            save(found)

    if not args.table:
        # The small ones first: what is cut off is little.
        stale.sort(key=lambda key: there[key].stat().st_size)
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(one, stale))
    save(found)
    if left:
        print(f"{left} recordings are left: run this again", file=sys.stderr)
        return 1
    write_tables(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
