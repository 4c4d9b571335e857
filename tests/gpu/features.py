"""Which of PyTorch's memory functions and modes work under stalloc, compared with native.

Every row is a small program (feature_rows.py, feature_modes.py) in a process of its own, once
under PyTorch's allocator and once under stalloc, several at a time. A table comes at the end;
the exit status is 1 if anything works under native and not under stalloc.

    python tests/gpu/features.py                    all
    python tests/gpu/features.py snapshot graph     rows whose names contain one of these words
    python tests/gpu/features.py --route pluggable  the other way into PyTorch
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import feature_modes
import feature_rows
import gpu

WORKS, FAILS, ABSENT = "works", "no", "not here"


def child(row, allocator, route):
    """Runs one row in this process. Exit status 0: it works; 3: nothing here to try it with."""
    if allocator == "stalloc" and row not in feature_rows.LATE:
        import stalloc

        assert stalloc.enable(route=route), "stalloc is not enabled"
    else:
        sys.modules["stalloc"] = None  # nobody may import it by accident
        if allocator == "stalloc":
            del sys.modules["stalloc"]
    os.environ["FEATURE_ALLOCATOR"] = allocator
    import torch

    try:
        words = feature_rows.ROWS[row](torch)
    except feature_rows.Absent as why:
        print(why)
        sys.exit(3)
    print(words or "")


def measure(row, allocator, args):
    """Whether a row works, what it said, and how long it took."""
    command = [sys.executable, __file__, "--child", row, allocator, "--route", args.route]
    environment = {**os.environ, "PYTHONPATH": str(gpu.ROOT / "python")}
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")  # several rows compile at once
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=args.timeout, env=environment
        )
    except subprocess.TimeoutExpired:
        return FAILS, f"no end after {args.timeout:g} s", args.timeout
    spent = time.monotonic() - begin
    if done.returncode in (0, 3):
        last = done.stdout.strip().splitlines()[-1:] or [""]
        return (WORKS if done.returncode == 0 else ABSENT), last[0], spent
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    if args.verbose:
        head = f"-- {row} under {allocator}, exit {done.returncode}"
        print(head, *lines[-25:], sep="\n", flush=True)
    return FAILS, f"{lines[-1]} (exit {done.returncode})", spent


def table(results):
    """Markdown, one row a feature."""
    width = max(map(len, results))
    print(f"| {'feature':<{width}} | native   | stalloc  |")
    print(f"|{'-' * (width + 2)}|----------|----------|")
    for row, ((native, *_), (ours, *_)) in results.items():
        print(f"| {row:<{width}} | {native:<8} | {ours:<8} |")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--child", nargs=2, metavar=("ROW", "ALLOCATOR"))
    parser.add_argument("--route", default="adapter", help="adapter, pluggable or auto")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--timeout", type=float, default=150, metavar="SECONDS")
    parser.add_argument("--verbose", action="store_true", help="show what failing rows say")
    args = parser.parse_args()
    if args.child:
        return child(*args.child, args.route)
    words = [word.lower() for word in args.words] or [""]
    rows = [row for row in feature_rows.ROWS if any(word in row.lower() for word in words)]
    # Those that compile take longest.
    order = sorted(rows, key=lambda row: row not in feature_rows.SLOW)
    begin = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        both = {
            row: [pool.submit(measure, row, allocator, args) for allocator in ("native", "stalloc")]
            for row in order
        }
        results = {row: [future.result() for future in both[row]] for row in rows}
    table(results)
    lost = 0
    for row, (native, ours) in results.items():
        lost += native[0] == WORKS and ours[0] != WORKS
        for allocator, (state, said, spent) in zip(("native", "stalloc"), (native, ours)):
            if state != WORKS or args.verbose:
                print(f"{row}, {allocator}: {state}, {spent:.1f} s: {said[:300]}")
    print(f"\n{len(rows)} rows, {lost} lost, {time.monotonic() - begin:.0f} s")
    return 1 if lost else 0


if __name__ == "__main__":
    assert feature_modes.row is feature_rows.row  # importing it has added its rows
    sys.exit(main())
