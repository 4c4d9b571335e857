"""Everything that is measured for the docs, in pieces that go on where the last one was.

    make figures                                    # ten minutes of it; again until it is done
    python docs/plots/figures.py --only limit       # a part alone
    python docs/plots/figures.py --only tables      # tables and pictures from what is there

The parts: recordings, constants, paper and leaderboard (no GPU), turns, limit, artifact, frontier
and together (a GPU or two, and PyTorch), tables. A part that cannot be made here is left out, and
said to be. The exit status is 0 if all parts are done, 75 if there is more to do, 1 if one failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import recordings

ROOT = recordings.ROOT
DATA = recordings.FOLDER
EXAMPLES = ROOT / "examples"
EXIT_MORE = 75
REPLAYS = ("recordings", "constants", "paper", "leaderboard")
ON_GPUS = ("turns", "limit", "artifact", "frontier", "together")
PAGES = {"frontier": "frontier.md", "together": "speed.md"}  # others are in tables.md
PARTS = (*REPLAYS, *ON_GPUS, "tables")
# Options of the table's command, before the names of what is in the ledger.
ASKED = {
    "artifact": ("--turns", "99", "--rows"),
    "frontier": ("--models",),
    "together": ("--sets", "99", "--programs"),
}
IMAGES = {
    "limit": "Median step over the limit, by allocator",
    "frontier": "Tokens a second over memory, by allocator; below it the gain over the best peer",
}
LEAST = 60  # seconds: with fewer left no part is begun


def missing(part: str) -> str:
    """Why a part cannot be made here, "" if it can."""
    if part in REPLAYS:
        return "" if (ROOT / "bin" / "stalloc").exists() else "bin/stalloc is not built"
    if part in ON_GPUS:
        if importlib.util.find_spec("torch") is None:
            return "PyTorch is not installed"
        import torch

        return "" if torch.cuda.is_available() else "no GPU here"
    return ""


def command(part: str, seconds: float) -> list[str]:
    if part in REPLAYS:
        return [f"docs/plots/{part}.py", "--budget", f"{seconds:.0f}"]
    data = DATA / f"{part}.jsonl"
    return [f"examples/{part}.py", "--json", str(data), "--budget", f"{seconds:.0f}"]


def run(part: str, seconds: float) -> int:
    done = subprocess.run([sys.executable, *command(part, seconds)], cwd=ROOT, check=False)
    # These end with 1 where some are left.
    return EXIT_MORE if part in REPLAYS and done.returncode == 1 else done.returncode


def gpu_lines(part: str) -> list[str]:
    """What a benchmark of examples/ has measured, as its page shows it: machine by machine, which
    each have a file.
    """
    tables = []
    for data in recordings.ledgers(part):
        runs = {json.loads(line)["key"]["program"] for line in data.read_text().splitlines()}
        names = sorted(runs - {"throughput"})
        words = [sys.executable, f"examples/{part}.py", "--json", str(data), "--table"]
        words += [*ASKED.get(part, ("--turns", "99", "--programs")), *names]
        words += ["--allocators", *measured(data)] if part == "together" else []
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        tables.append(done.stdout.strip())
    if not tables:
        return ["Not measured yet."]
    if part in IMAGES and (ROOT / "docs" / "figures" / f"{part}.png").exists():
        tables.insert(0, f"![{IMAGES[part]}](figures/{part}.png)")
    return "\n\n".join(tables).splitlines()


def measured(data: Path) -> list[str]:
    """The allocators in a ledger; what is compared with all others is the last one."""
    found = {json.loads(line)["key"]["allocator"] for line in data.read_text().splitlines()}
    order = ["native", "expandable", "async", "stalloc:pool=gmlake", "stalloc"]
    return sorted(found, key=order.index)


def page_of(part: str) -> Path:
    return ROOT / "docs" / PAGES.get(part, "tables.md")


def gpu_tables() -> None:
    for part in ON_GPUS:
        mark = f"{part}: written by make figures"
        recordings.put(page_of(part), mark, gpu_lines(part))
    for page, mark, lines in five():
        recordings.put(page, mark, lines)
    import offload_tables
    import once

    for mark, lines in offload_tables.pages().items():
        recordings.put(offload_tables.PAGE, mark, lines)
    recordings.put(recordings.TABLES, once.MARK, once.lines())


def five() -> list[tuple[Path, str, list[str]]]:
    """What benchmarks.md and the README say of programs on GPUs: pages, marks, and tables."""
    sys.path.insert(0, str(EXAMPLES))
    import ledger
    import together
    import together_brief

    full, brief = [], []
    for data in recordings.ledgers("together"):
        words = ["--json", str(data), "--table", "--sets", "99", "--allocators", *measured(data)]
        args = together.parse_arguments(words)
        bench = together.Bench(args, ledger.Ledger(data, 0))
        full.append(together_brief.tables(bench, together.PROGRAMS))
        brief.append(together_brief.brief(bench))
    return [
        (ROOT / "docs" / "benchmarks.md", "gpus: written by make figures",
         "\n\n".join(full).splitlines()),
        (ROOT / "README.md", "gpus in short: written by make figures", brief[0].splitlines()),
    ]  # fmt: skip


def pictures() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("pictures: not drawn: matplotlib is not installed", file=sys.stderr)
        return
    import plots

    plots.measured_pictures(ROOT / "docs" / "figures")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="for all")
    args = parser.parse_args(argv)
    start, worst = time.monotonic(), 0
    for part in args.only:
        why = missing(part)
        if why:
            print(f"{part}: left out: {why}", file=sys.stderr)
            continue
        if part == "tables":
            recordings.write_tables(recordings.kept())
            pictures()
            gpu_tables()
            continue
        left = args.budget - (time.monotonic() - start)
        status = run(part, left) if left > LEAST else EXIT_MORE
        worst = status if status not in (0, EXIT_MORE) else worst or status
    if worst == EXIT_MORE:
        print("there is more to measure: run this again", file=sys.stderr)
    return worst


if __name__ == "__main__":
    sys.exit(main())
