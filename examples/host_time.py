#!/usr/bin/env python3
"""Whether programs that the host bounds are slower under stalloc: clock and threads side by side.

    python examples/host_time.py --turns 5
    python examples/host_time.py --turns 5 --cores 8 --script train_llama.py -- --layers 4

Runs a training example under each allocator in turns, each time in a process of its own, kept to
--cores of the machine, and prints medians of its steady steps (the last two thirds): the clock, and
what the main thread, autograd's and all others have run, as the kernel counts it (schedstat).
With each median come the least and the most of the turns.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import launch

HERE = Path(__file__).resolve().parent
ROWS = ("clock", "main", "autograd", "others", "driver")


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else is passed to the example."
    )
    parser.add_argument("--script", default="train_moe.py", metavar="FILE", help="in examples/")
    parser.add_argument("--allocators", nargs="+", default=["native", "stalloc"], metavar="NAME")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cores", type=int, help="as many of the machine; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements here")
    args, rest = parser.parse_known_args(argv)
    args.rest = [option for option in rest if option != "--"]
    return args


def of_step(step):
    """Milliseconds, by row."""
    threads = {kind: 1e3 * ran for kind, ran in step["thread_seconds"].items()}
    return {"clock": 1e3 * step["seconds"], "driver": 1e3 * step["driver_seconds"], **threads}


def medians(report):
    """A run's medians, by row."""
    steady = [of_step(step) for step in report["steps"][len(report["steps"]) // 3 :]]
    return {row: statistics.median(step[row] for step in steady) for row in ROWS}


def table(turns):
    """`turns` has, by allocator, the medians of each run."""
    lines = ["| ms a step | " + " | ".join(turns) + " |", "|---" * (1 + len(turns)) + "|"]
    for row in ROWS:
        cells = []
        for runs in turns.values():
            each = sorted(run[row] for run in runs)
            cells.append(f"{statistics.median(each):.1f} ({each[0]:.1f} to {each[-1]:.1f})")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv=None):
    args = parse_arguments(argv)
    if args.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    reports, turns = [], {allocator: [] for allocator in args.allocators}
    for _ in range(args.turns):
        for allocator in args.allocators:
            report = launch.launch(HERE / args.script, args.rest, allocator, 600, quiet=True)
            reports.append(report)
            if "failed" in report:
                print(f"{allocator}: {report['failed']}", file=sys.stderr)
                return 1
            turns[allocator].append(medians(report))
    print(f"{args.script} {' '.join(args.rest)}, {args.turns} turns\n\n{table(turns)}")
    if args.json:
        args.json.write_text(json.dumps(reports) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
