"""Replays every recording with each mechanism switched off, and writes docs/constants.md.

Run by `make constants`, or as a part of `make figures`; some five minutes on two cores. Rows are
what `stalloc replay --without list` names, columns the recordings in tests/traces that the
allocator was made with, and those in tests/traces/more and apart, which it was not. Results are
kept one by one in docs/data/constants.json, and go on where they were, as recordings.py's do.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import recordings
from recordings import ROOT, said

DATA = ROOT / "docs" / "data" / "constants.json"
PAGE = ROOT / "docs" / "constants.md"
HEADS = {"tuned": "made with", "more": "others", "apart": "apart"}

# By what is switched off ("": nothing), group and name of the recording.
Key = tuple[str, str, str]
Results = dict[Key, dict]


def mechanisms(binary: str) -> dict[str, str]:
    """By name, what it does."""
    listed = said(binary, "replay", "--without", "list").splitlines()
    return dict(line.split(": ", 1) for line in listed)


def kept() -> Results:
    lines = DATA.read_text().splitlines() if DATA.exists() else []
    return {(r["without"], r["group"], r["trace"]): r for r in map(json.loads, lines)}


def save(found: Results) -> None:
    beside = DATA.with_suffix(".new")
    beside.write_text("".join(json.dumps(found[key]) + "\n" for key in sorted(found)))
    beside.replace(DATA)


def replay(binary: str, key: Key, path: Path, serves: str) -> dict:
    """Waste and the driver's share of the steady part, in percent."""
    off, group, name = key
    flags = ["--without", off] if off else []
    r = json.loads(said(binary, "replay", "--allocator", "stalloc", "--json", *flags, str(path)))
    share = r["steady_driver_time_us"] / max(r["steady_time_us"], 1)
    figures = {"waste": round(100 * r["fragmentation"], 4), "driver": round(100 * share, 4)}
    return {"without": off, "group": group, "trace": name, "serves": serves, **figures}


def page(known: dict[str, str], found: Results) -> list[str]:
    rows = {group: [r for (off, of, _), r in found.items() if (off, of) == ("", group)]
            for group in HEADS}  # fmt: skip
    commits = ", ".join(sorted({r["serves"] for r in found.values()}))
    lines = [
        "# What each mechanism buys",
        "",
        f"Written by `make constants`; the allocator is that of commit {commits}.",
        "",
        "Each row is the allocator with one mechanism switched off; `stalloc replay --without`",
        "takes these names. A cell has the waste and the driver's share of the steady part, in",
        "percent, with 80 GiB and without a saved plan, averaged over a group of recordings:",
        f"{len(rows['tuned'])} that the allocator was made with (tests/traces),",
        f"{len(rows['more'])} others (tests/traces/more), and {len(rows['apart'])} that it",
        "never saw (tests/traces/apart). The last column has the worst waste and the worst",
        "driver's share of all.",
        "",
        f"| without | {' | '.join(HEADS.values())} | worst |",
        "|---" + "|--:" * len(HEADS) + "|--:|",
    ]
    for off in ("", *known):
        cells = []
        for group in HEADS:
            of = [r for key, r in found.items() if key[:2] == (off, group)]
            waste, driver = (sum(r[figure] for r in of) / len(of) for figure in ("waste", "driver"))
            cells.append(f"{waste:.3f} / {driver:.3f}")
        of = [r for key, r in found.items() if key[0] == off]
        waste, driver = (max(r[figure] for r in of) for figure in ("waste", "driver"))
        cells.append(f"{waste:.2f} / {driver:.2f}")
        lines.append(f"| {off or 'nothing'} | {' | '.join(cells)} |")
    lines += [
        "",
        "What the constants do that weigh memory against driver time: [Tune](tune.md).",
        "",
        "## The mechanisms",
        "",
    ]
    return lines + [f"- **{name}**: {what}." for name, what in known.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin none after them")
    parser.add_argument("--jobs", type=int, default=2, help="replays at a time")
    args = parser.parse_args()
    known, serves, start = mechanisms(args.binary), recordings.version(), time.monotonic()
    files = {(off, *key): path for off in ("", *known) for key, path in recordings.files().items()}
    found = {key: r for key, r in kept().items() if key in files and r["serves"] == serves}
    lock = threading.Lock()

    def one(key: Key) -> None:
        if args.budget and time.monotonic() - start > args.budget:
            return
        result = replay(args.binary, key, files[key], serves)
        with lock:
            found[key] = result
            save(found)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, [key for key in files if key not in found]))
    if left := len(files) - len(found):
        print(f"{left} of {len(files)} replays are left: run this again", file=sys.stderr)
        return 1
    save(found)
    PAGE.write_text("\n".join(page(known, found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
