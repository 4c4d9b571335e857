#!/usr/bin/env python3
"""Runs one training example under several GPU memory allocators and compares them.

Each allocator gets a process of its own, one after the other, on the same device. Options that
are not listed here go to the example::

    python examples/compare.py --steps 12
    python examples/compare.py --steps 30 --eval-every 5 --batch-change 15:4
    python examples/compare.py --allocators native stalloc stalloc:plan=off -- --recompute
    python examples/compare.py --script examples/train_moe.py --preset qwen --steps 12

The exit status is 0 only if every run finished, all losses and final weights are the same bit
for bit, and stalloc served requests from a plan if the steps repeat.
"""

import argparse
import json
import sys
from pathlib import Path

import harness
import judge
import launch
import ledger

HERE = Path(__file__).resolve().parent
DEFAULT = ("native", "expandable", "stalloc")


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else is passed to the example."
    )
    parser.add_argument("--script", type=Path, default=HERE / "train_llama.py", metavar="FILE")
    parser.add_argument(
        "--allocators",
        nargs="+",
        default=list(DEFAULT),
        metavar="NAME",
        help=f"as the example's --allocator takes them; default: {' '.join(DEFAULT)}",
    )
    parser.add_argument("--json", type=ledger.file, metavar="FILE", help="all measurements")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="per run")
    return harness.parse_known(parser, argv)


def main(argv=None):
    args = parse_arguments(argv)
    reports = launch.launch_all(args.script, args.rest, args.allocators, lambda: args.timeout)
    print(f"\n{judge.in_full(args.script, reports)}")
    if args.json:
        args.json.write_text(json.dumps(reports, indent=1) + "\n")
    return 1 if judge.all_faults(reports) else 0


if __name__ == "__main__":
    sys.exit(main())
