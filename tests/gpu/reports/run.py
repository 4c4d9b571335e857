#!/usr/bin/env python3
"""Public reports about GPU memory allocators, run again under each: `make gpu-reports`.

    python tests/gpu/reports/run.py --json docs/data/reports.jsonl            # those that lack
    python tests/gpu/reports/run.py --json new.jsonl --only comb new_streams
    python tests/gpu/reports/run.py --page                                    # docs/reports.md

Each program runs in a process of its own, at most a minute; the allocators side by side, except
where a program looks at the whole device. A row is printed and kept at once. The exit status is 1
if a program fails under stalloc, 75 if the time was up before all had run.
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
    end, lost = time.monotonic() + args.seconds, 0
    known = set() if args.again else {(r["name"], r["allocator"]) for r in page.kept(args.json)}
    about = {}
    where = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    if subprocess.run([sys.executable, "-c", FIRST], env=where, timeout=240).returncode:
        raise SystemExit("run.py: no GPU here; --page shows what was measured")
    for name in args.only or CASES:
        todo = [a for a in args.allocators if (name, a) not in known]
        with concurrent.futures.ThreadPoolExecutor(1 if CASES[name].alone else 3) as pool:
            left = end - time.monotonic()
            if left < 10:
                print("the time is up: run this again", file=sys.stderr)
                return ledger.EXIT_MORE
            runs = [pool.submit(run, name, a, min(MOST, left)) for a in todo]
            for allocator, result in zip(todo, (each.result() for each in runs)):
                about |= {key: result[key] for key in ("device", "torch", "cuda") if key in result}
                row = {"name": name, "allocator": allocator, **about, **result}
                row |= {"commit": ledger.commit(), "date": datetime.date.today().isoformat()}
                lost += allocator == "stalloc" and not row["ok"]
                with args.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                say = "ok" if row["ok"] else row["reason"]
                print(f"{name:20} {allocator:11} {say:14} {row.get('seconds', 0):6.2f} s  "
                      f"{row['said']}", flush=True)  # fmt: skip
    return 1 if lost else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "data" / "reports.jsonl")
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), metavar="NAME")
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=ALLOCATORS)
    parser.add_argument("--seconds", type=float, default=290, help="for all")
    parser.add_argument("--again", action="store_true", help="also what the ledger has")
    parser.add_argument("--page", action="store_true", help="write docs/reports.md, run nothing")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "ALLOCATOR"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    for module in ("fragments", "streams", "pools", "running_out"):
        __import__(module)
    sys.exit(main())
