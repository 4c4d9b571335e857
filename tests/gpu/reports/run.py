#!/usr/bin/env python3
"""Public reports about GPU memory allocators, run again under each: `make gpu-reports`.

    python tests/gpu/reports/run.py --json docs/data/reports.jsonl            # those missing
    python tests/gpu/reports/run.py --json new.jsonl --only comb new_streams
    python tests/gpu/reports/run.py --page                                    # docs/reports.md

Each program runs in a process of its own, at most a minute; several side by side, except where
one looks at the whole device. A row is printed and kept at once. The exit status is 1 if a program
fails under stalloc that does what was expected under another, 75 if the time was up before all had
run.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import harness  # noqa: E402
import ledger  # noqa: E402
import page  # noqa: E402
from case import CASES, Context, Fails  # noqa: E402

ALLOCATORS = ("native", "expandable", "stalloc")
MOST = 60  # seconds of a program
# Compiles the adapter, which no program shall pay for; fails where there is no GPU.
FIRST = "import sys, stalloc, torch; stalloc.enable(); sys.exit(not torch.cuda.is_available())"


def child(name, allocator):
    """One program in this process. Prints what came of it as JSON."""
    case = CASES[name]
    harness.choose_allocator(allocator)
    if case.conf and allocator != "stalloc":
        key = harness.native_variable()
        os.environ[key] = ",".join(filter(None, (os.environ.get(key), case.conf)))
    import ballast
    import torch

    torch.zeros(1, device="cuda")
    if case.limit():
        ballast.limit(torch.device("cuda", 0), allocator, case.limit() / 1024)
    context = Context(torch, allocator)
    torch.cuda.reset_peak_memory_stats()
    word, begun = "", time.perf_counter()
    try:
        case.program(context)
        torch.cuda.synchronize()
    except Fails as why:
        word = why.word
        context.say(str(why)) if str(why) not in context.said else None
    except torch.OutOfMemoryError as error:
        word = "out of memory"
        context.say(str(error).split(". GPU")[0][:160])
    except Exception as error:  # whatever it is, it is what the report is about
        word = "error"
        context.say(f"{type(error).__name__}: {str(error).splitlines()[0][:160]}")
    result = {"ok": not word, "reason": word, "said": "; ".join(context.said[-2:])}
    result |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    result |= {"cuda": torch.version.cuda, "seconds": round(time.perf_counter() - begun, 2)}
    print(json.dumps(result), flush=True)
    os._exit(0)  # a broken context must not end it otherwise


def run(name, allocator, timeout):
    command = [sys.executable, __file__, "--child", name, allocator]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"ok": False, "reason": "no end", "said": f"after {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"ok"')]
    if lines:
        return json.loads(lines[-1])
    last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    return {"ok": False, "reason": "crash", "said": f"exit status {done.returncode}: {last[:200]}"}


def main():
    args = parse_arguments()
    if args.child:
        return child(*args.child)
    if args.page:
        page.write(ROOT, list(CASES.values()), page.kept(args.json))
        return 0
    known = set() if args.again else {(r["name"], r["allocator"]) for r in page.kept(args.json)}
    todo = [(name, a) for name in args.only or CASES for a in args.allocators]
    todo = [each for each in todo if each not in known]
    where = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    if todo and subprocess.run([sys.executable, "-c", FIRST], env=where, timeout=240).returncode:
        raise SystemExit("run.py: no GPU here; --page shows what was measured")
    return run_all(args, todo, time.monotonic() + args.seconds)


def run_all(args, todo, end):
    """Side by side, and then, one after the other, those that are alone; returns the status."""
    about, statuses = {}, set()

    def one(each):
        left = end - time.monotonic()
        return run(*each, min(MOST, left)) if left > 10 else None

    for alone, jobs in ((False, args.jobs), (True, 1)):
        those = [each for each in todo if CASES[each[0]].alone == alone]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for each, result in zip(those, pool.map(one, those)):
                if result is None:
                    statuses.add(ledger.EXIT_MORE)
                    continue
                about |= {key: result[key] for key in ("device", "torch", "cuda") if key in result}
                keep(args.json, {**dict(zip(("name", "allocator"), each)), **about, **result})
    holds = {(row["name"], row["allocator"]): row["ok"] for row in page.kept(args.json)}
    lost = [name for (name, a), ok in holds.items() if a == "stalloc" and not ok
            and any(holds.get((name, peer)) for peer in ALLOCATORS)]  # fmt: skip
    print(f"fails under stalloc alone: {' '.join(lost) or 'nothing'}")
    return max(statuses, default=1 if lost else 0)


def keep(path, row):
    row |= {"commit": ledger.commit(), "date": datetime.date.today().isoformat()}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    say = "ok" if row["ok"] else row["reason"]
    seconds = row.get("seconds", 0)
    print(f"{row['name']:20} {row['allocator']:11} {say:14} {seconds:6.2f} s  {row['said']}",
          flush=True)  # fmt: skip


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kept = ROOT / "docs" / "data" / "reports.jsonl"
    parser.add_argument("--json", type=ledger.file, default=kept)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), metavar="NAME")
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=ALLOCATORS)
    parser.add_argument("--jobs", type=int, default=9, help="programs side by side")
    parser.add_argument("--seconds", type=float, default=290, help="for all")
    parser.add_argument("--again", action="store_true", help="also what the ledger has")
    parser.add_argument("--page", action="store_true", help="write docs/reports.md, run nothing")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "ALLOCATOR"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    for module in ("fragments", "streams", "pools", "running_out"):
        __import__(module)
    sys.exit(main())
