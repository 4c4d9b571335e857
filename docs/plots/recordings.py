"""Replays the recordings anew, and puts their tables into docs/benchmarks.md: `make recordings`.

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
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "data" / "recordings.json"
TRACES = ROOT / "tests" / "traces"
# In the order of the tables. What the allocator was made with, what it was tried on now and then,
# and what other people wrote, recorded after all mechanisms were there.
GROUPS = {"tuned": TRACES, "more": TRACES / "more", "apart": TRACES / "apart"}
TITLES = {
    "tuned": "that the allocator was made with (`tests/traces`)",
    "more": "that it was tried on now and then (`tests/traces/more`)",
    "apart": "kept apart from all tuning (`tests/traces/apart`)",
}
ALLOCATORS = ["native", "expandable", "gmlake", "stalloc"]
NAMES = {"gmlake": "GMLake"}
# What decides how a recording is served, and how it is replayed.
SERVES = ["actors", "baseline", "cuda", "engine", "internal", "plan", "stream", "trace"]
GIB = 1 << 30

Results = dict[tuple[str, str], dict[str, dict]]  # by group and name, by allocator


def said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def version() -> str:
    """The last commit that changed what serves, marked if something is not committed."""
    commit = said("git", "log", "-1", "--format=%h", "--abbrev=7", "--", *SERVES).strip()
    return commit + ("+" if said("git", "status", "--porcelain", "--", *SERVES).strip() else "")


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


def summary(found: Results) -> list[str]:
    """Both figures over all recordings, in a few words: native, expandable, stalloc."""
    steady = [of for of in found.values() if of["stalloc"]["steady_time_us"]]
    lines = [
        f"Memory above the peak of live tensors, {len(found)} recorded runs, "
        "on average (at worst):",
        "",
    ]
    for title, key, rows in (
        ("to fit", "fits_in_bytes", list(found.values())),
        ("at full speed", "full_speed_in_bytes", steady),
    ):
        cells = []
        for allocator in ("native", "expandable", "stalloc"):
            figures = [x for of in rows if (x := excess(of, allocator, key)) is not None]
            never = len(rows) - len(figures)
            more = f"; never: {never} of {len(rows)}" if never else ""
            cells.append(
                f"{allocator} {sum(figures) / len(figures):.1f} % ({max(figures):.1f}{more})"
            )
        lines.append(f"- {title}: {', '.join(cells)}")
    return lines


def rows_of(found: Results, group: str) -> dict[str, dict[str, dict]]:
    return {name: of for (of_group, name), of in sorted(found.items()) if of_group == group}


def pages(found: Results) -> dict[str, list[str]]:
    """What stands between the marks of docs/benchmarks.md."""
    commits = sorted({r["serves"] for of in found.values() for r in of.values()})
    about = f"`stalloc replay --smallest --json`, what serves as of commit {', '.join(commits)}."
    sizes, waste = [about], []
    for group, title in TITLES.items():
        rows = rows_of(found, group)
        if rows:
            sizes += ["", f"Recordings {title}:", "", *sizes_table(rows)]
            waste += [*([""] if waste else []), f"Recordings {title}:", "", *waste_table(rows)]
    return {"sizes": sizes, "waste": waste}


SUMMARY = "two figures: written by make recordings"


def put(page: Path, mark: str, lines: list[str]) -> None:
    """Puts lines into a page, between a mark and the next end."""
    mark = f"<!-- {mark} -->\n"
    before, rest = page.read_text().split(mark)
    page.write_text(before + mark + "\n".join(lines) + "\n" + rest[rest.index("<!-- end -->") :])


def write_tables(found: Results) -> None:
    put(ROOT / "README.md", SUMMARY, summary(found))
    for name, lines in pages(found).items():
        put(ROOT / "docs" / "benchmarks.md", f"{name}: written by make recordings", lines)


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
