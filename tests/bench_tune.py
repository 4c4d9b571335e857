"""How far the default settings lie from the front of settings, for each recording.

`stalloc tune` looks for the front of each, without noise and with few replays. Its points are
lines below OUT; recordings that have a file there are not searched again, so this can be
interrupted. `--table` searches nothing: it prints what is there, and gathers it in DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "tune"
DATA = ROOT / "docs" / "data" / "tune.jsonl"
FULL_SPEED = 1.0  # percent of the driver's time


def search(stalloc: str, trace: Path, replays: int) -> None:
    out = OUT / (trace.name.removesuffix(".csv.gz") + ".jsonl")
    if out.exists():
        return
    command = [stalloc, "tune", "--noise", "0", "--jobs", "1", "--json"]
    command += ["--replays", str(replays), str(trace)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    out.write_bytes(done.stdout)
    print(row(out), flush=True)


def row(path: Path) -> str:
    """A line of the table; a cell is empty where the defaults are the best found."""
    points = [json.loads(line) for line in path.read_text().splitlines()]
    (default,) = (p for p in points if p["point"] < 0)

    def least(key: str, among: list[dict]) -> dict:
        return min(among, key=lambda p: p[key])

    as_fast = [
        p
        for p in points
        if p["driver"] <= default["driver"] and p["first_eight"] <= default["first_eight"]
    ]
    limit = max(FULL_SPEED, default["driver"])
    cells = [path.stem, figures(default), f"{default['first_eight']:.2f}"]
    for p in (
        least("waste", as_fast),
        least("waste", [p for p in points if p["driver"] <= limit]),
        least("driver", [p for p in points if p["waste"] <= default["waste"]]),
    ):
        cells.append("" if p["conf"] == default["conf"] else figures(p))
    return "| " + " | ".join(cells) + " |"


def figures(p: dict) -> str:
    return f"{p['waste']:.2f} / {p['driver']:.2f}"


def gather(paths: list[Path]) -> None:
    with DATA.open("w") as out:
        for path in paths:
            for line in path.read_text().splitlines():
                out.write(json.dumps({"recording": path.stem} | json.loads(line)) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="*")
    parser.add_argument("--stalloc", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--replays", type=int, default=10)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if args.table:
        found = sorted(OUT.glob("*.jsonl"))
        print("\n".join(map(row, found)))
        gather(found)
        return
    for trace in args.traces:
        search(args.stalloc, trace, args.replays)


if __name__ == "__main__":
    main()
