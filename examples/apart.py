#!/usr/bin/env python3
"""Records programs that nothing was tuned on, for `stalloc replay` (needs a GPU).

    python examples/apart.py --out tests/traces/apart
    python examples/apart.py --out tests/traces/apart --only speech t5 --budget 580

Each of apart_program.py's programs runs under `stalloc record`, which is to say under PyTorch's own
allocator, and ends up in a file of at most 1.5 MB: with fewer steps if that is what it takes. What
is recorded already is not recorded again. The exit status is 0 if all are there, 75 if the time was
up before, 1 if some could not be recorded; the last lines say why.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import apart_program
import harness

HERE = Path(__file__).resolve().parent
MOST = 1_500_000  # bytes of a file
FEWEST = 4  # steps: with less there is hardly a steady part
EXIT_MORE = 75


def record(name, out, steps=None, timeout=600, run=subprocess.run):
    """Records a program; what is wrong, "" if nothing is."""
    path = out / f"{name}.csv.gz"
    beside = out / f".{name}.csv.gz"
    script = [str(HERE / "apart_program.py"), name, *(["--steps", str(steps)] if steps else [])]
    command = [sys.executable, "-m", "stalloc.record", "--name", name, "-o", str(beside), *script]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(HERE.parent / "python"), environment.get("PYTHONPATH")])
    )
    try:
        done = run(
            command,
            timeout=timeout,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {timeout:.0f} s"
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        beside.unlink(missing_ok=True)
        return f"exit status {done.returncode}: {said[-1] if said else 'nothing said'}"
    if beside.stat().st_size > MOST:
        return f"{beside.stat().st_size:,} bytes"
    beside.rename(path)
    return ""


def record_small(name, out, left, run=subprocess.run):
    """Records a program with as many steps as its file has room for; what is wrong."""
    wrong, steps = record(name, out, None, left(), run), None
    beside = out / f".{name}.csv.gz"
    while wrong.endswith(" bytes") and left() > 0:
        share = MOST / beside.stat().st_size
        steps = min(int((steps or apart_program.STEPS[name]) * share), (steps or 99) - 1)
        beside.unlink()
        if steps < FEWEST:
            return f"{wrong}, and with {FEWEST} steps still above {MOST:,}: make it smaller"
        wrong = record(name, out, steps, left(), run)
    return wrong


def main(argv=None, run=subprocess.run, clock=time.monotonic):
    args = parse_arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    end, faults, more = clock() + args.budget, {}, []
    for name in args.only:
        if (args.out / f"{name}.csv.gz").exists():
            continue
        absent = harness.missing(*apart_program.PROGRAMS[name][1])
        if absent:
            faults[name] = absent
            continue
        if end - clock() < args.each:
            more.append(name)
            continue
        began = clock()
        faults[name] = record_small(name, args.out, lambda: end - clock(), run)
        print(f"{name}: {faults[name] or 'recorded'}, {clock() - began:.0f} s", flush=True)
    for path in sorted(args.out.glob("*.csv.gz")):
        print(f"{path.stat().st_size:>9,} bytes  {path.name}")
    faults = {name: why for name, why in faults.items() if why}
    for name, why in faults.items():
        print(f"{name}: {why}", file=sys.stderr)
    if more:
        print(f"not tried, run this again: {' '.join(more)}", file=sys.stderr)
    return 1 if faults else EXIT_MORE if more else 0


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = tuple(apart_program.PROGRAMS)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="for all")
    parser.add_argument(
        "--each", type=float, default=75, metavar="SECONDS", help="begin none with less time left"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
