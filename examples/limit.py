#!/usr/bin/env python3
"""Finds the longest sequences that each GPU memory allocator can train on in a fixed memory.

    python examples/limit.py --cap 8 --json limit.json
    python examples/limit.py --models qwen --allocators native stalloc

Every allocator may reserve --cap GiB of the device, no more. The batch size stays, the length
of the sequences is bisected in units of 16 tokens: a length fits if a process of its own trains
a few steps without running out of memory. Where it fits once it is taken to fit at every shorter
length. The load at the cap, estimated from a few short runs, shows where to begin.

Probes run side by side, --jobs at a time, since each has its own share of the device. At the
limit that was found each allocator trains more steps, alone; where one of those runs out of
memory the limit is lower, by a unit each time. Then all train at their limits in turn: a
machine's mood of a minute is nobody's throughput.

The exit status is 0 only if every allocator trained and at its limit did so again.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import sys
import time
from pathlib import Path

import launch
import measure

HERE = Path(__file__).resolve().parent
SEARCH = 0.75  # of the budget; the rest is for the runs at the limits
ROUNDS = 3  # pairs of runs that estimate the load
UNIT = 16  # tokens: below it the loads of two lengths hardly differ
GIB = 1 << 30

MODELS = {
    "mixtral": "train_moe.py --preset mixtral --layers 4 --width 1024 --heads 8 --batch 4",
    "qwen": "train_moe.py --preset qwen --layers 4 --recompute --batch 4",
    "recompute": "train_llama.py --recompute --layers 16 --width 1024 --batch 4",
}
SMALL = "--vocabulary 8192"  # so that the layers, not the logits, take the memory


@dataclasses.dataclass
class Probe:
    """Runs one model under one allocator at given lengths."""

    model: str
    allocator: str
    args: argparse.Namespace
    end: float  # time.monotonic() at which the time is up
    tried: dict = dataclasses.field(default_factory=dict)

    def run(self, units, steps, cap=True):
        script, *options = MODELS[self.model].split() + SMALL.split()
        options += ["--seq", str(units * UNIT), "--steps", str(steps), *self.args.rest]
        if cap:
            options += ["--memory-cap", str(self.args.cap)]
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is up")
        return launch.launch(HERE / script, options, self.allocator, left, quiet=True)

    def fits(self, units):
        report = self.run(units, self.args.steps)
        fit = "failed" not in report
        if not fit and "out_of_memory" not in report:
            raise RuntimeError(f"length {units * UNIT}: {report['failed']}")
        self.tried[units] = fit
        tell(self.model, self.allocator, units, "fits" if fit else report["failed"])
        return fit


def tell(model, allocator, units, what):
    line = f"{model:>10} {allocator:>12} length {units * UNIT:5} {what}"
    print(line, file=sys.stderr, flush=True)


def largest(fits, guess, most):
    """The largest n of 1..most for which fits(n), 0 if none; calls it near `guess` first.

    Supposes that all smaller n fit where one does.
    """
    low, high, stride = 0, most + 1, max(1, guess // 16)
    n = min(max(guess, 1), most)
    while low + 1 < high:
        if fits(n):
            low, step = n, n + stride
        else:
            high, step = n, n - stride
        stride *= 2
        n = step if low < step < high and (low == 0 or high > most) else (low + high) // 2
    return low


def load_limit(args, model, end):
    """The length, in units, whose load is just the cap; from the loads of pairs of runs.

    The load of a short sequence may be the optimizer's and hardly grow: a pair that the cap is
    far from only says where to take the next.
    """
    short = args.short
    for _ in range(ROUNDS):
        loads = [load_of(args, model, units, end) for units in (short, short + args.short)]
        slope = (loads[1] - loads[0]) / args.short
        if slope <= 0:
            raise RuntimeError(f"{model}: the load does not grow with the length: {loads} bytes")
        limit = max(1, int(short + (args.cap * GIB - loads[0]) / slope))
        if limit <= 4 * short:
            break
        short = limit // 2
    return limit


def load_of(args, model, units, end):
    """The peak load in bytes at a length, without a cap."""
    report = Probe(model, "native", args, end).run(units, 2, cap=False)
    if "failed" in report:
        raise RuntimeError(f"{model} at length {units * UNIT}: {report['failed']}")
    return report["summary"]["peak_load"]


def search(args, model, allocator, limit, end):
    """The longest fitting length in units, and the lengths that were tried."""
    probe = Probe(model, allocator, args, end)
    try:
        # The loads of irregular models vary a little around the line.
        best = largest(probe.fits, int(0.9 * limit), int(1.1 * limit) + 1)
    except (RuntimeError, TimeoutError) as error:
        return {"failed": str(error), "tried": probe.tried}
    return {"units": best, "length": best * UNIT, "tried": probe.tried}


def search_all(args, end):
    """The load limits by model, and the results by model and allocator."""
    limits, results = {}, {model: {} for model in args.models}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        loads = {model: pool.submit(load_limit, args, model, end) for model in args.models}
        searches = []
        for model, load in loads.items():
            try:
                limits[model] = load.result()
            except (RuntimeError, TimeoutError) as error:
                results[model] = {name: {"failed": str(error)} for name in args.allocators}
                continue
            for name in args.allocators:
                task = pool.submit(search, args, model, name, limits[model], end)
                searches.append((model, name, task))
        for model, name, task in searches:
            results[model][name] = task.result()
    return limits, results


def settle(args, model, allocator, result, end):
    """Trains more steps at the limit, alone on the device; lowers it until they fit."""
    probe = Probe(model, allocator, args, end)
    while "failed" not in result and "report" not in result:
        if not result["units"]:
            result["failed"] = f"not even {UNIT} tokens fit"
            return
        report = attempt(probe, result["units"])
        if "out_of_memory" in report:
            tell(model, allocator, result["units"], report["failed"])
            result["units"] -= 1
            result["length"] = result["units"] * UNIT
        elif "failed" in report:
            result["failed"] = f"at length {result['length']}: {report['failed']}"
        else:
            result["report"] = report


def attempt(probe, units):
    """A run of full length: its report, or {"failed": why}."""
    try:
        return probe.run(units, probe.args.final_steps)
    except TimeoutError as error:
        return {"failed": str(error)}


def measure_all(args, model, found, end):
    """Throughput at the limits: each allocator's fastest of --turns runs, taken in turn."""
    for allocator, result in found.items():
        settle(args, model, allocator, result, end)
    for _ in range(args.turns - 1):
        for allocator, result in found.items():
            if "report" not in result:
                continue
            report = attempt(Probe(model, allocator, args, end), result["units"])
            if "failed" in report:
                result["failed"] = f"again at length {result['length']}: {report['failed']}"
            elif speed_of({"report": report}) > speed_of(result):
                result["report"] = report


def table(results, allocators):
    lines = [
        "| model | allocator | longest sequence | against the first | tokens/s | against the first "
        "| median step | peak reserved | peak load | retries |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for model, found in results.items():
        first = found.get(allocators[0], {})
        for allocator, result in found.items():
            if "failed" in result:
                lines.append(f"| {model} | {allocator} | {result['failed']} | | | | | | | |")
                continue
            summary, speed = result["report"]["summary"], speed_of(result)
            lines.append(
                f"| {model} | {allocator} | {result['length']} "
                f"| {ratio(result['length'], first.get('length'))} | {speed:,.0f} "
                f"| {ratio(speed, speed_of(first))} "
                f"| {summary['median_step_seconds'] * 1e3:.1f} ms "
                f"| {measure.mib(summary['peak_reserved'])} | {measure.mib(summary['peak_load'])} "
                f"| {sum(step['retries'] for step in result['report']['steps'])} |"
            )
    return "\n".join(lines)


def speed_of(result):
    return result.get("report", {}).get("summary", {}).get("median_items_per_second")


def ratio(value, base):
    return f"{value / base:.3f}" if base else "–"


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else is passed to the examples."
    )
    parser.add_argument("--cap", type=float, default=8, metavar="GIB", help="memory of each run")
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument(
        "--allocators", nargs="+", default=["native", "expandable", "stalloc"], metavar="NAME"
    )
    parser.add_argument("--steps", type=int, default=6, help="steps that a length must train")
    parser.add_argument("--final-steps", type=int, default=15, help="steps at the limit")
    parser.add_argument("--turns", type=int, default=2, help="runs at the limit, in turn")
    parser.add_argument("--short", type=int, default=64, metavar="UNITS", help="first of two loads")
    parser.add_argument("--jobs", type=int, default=4, help="probes at a time")
    parser.add_argument("--budget", type=float, default=540, metavar="SECONDS", help="for all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements here")
    args, rest = parser.parse_known_args(argv)
    args.rest = [option for option in rest if option != "--"]
    return args


def main(argv=None):
    args = parse_arguments(argv)
    start = time.monotonic()
    end = start + args.budget
    limits, results = search_all(args, start + SEARCH * args.budget)
    for model, found in results.items():
        measure_all(args, model, found, end)
    for model, limit in limits.items():
        print(f"{model}: the load alone reaches {args.cap:g} GiB near length {limit * UNIT}")
    print(f"\n{table(results, args.allocators)}")
    if args.json:
        args.json.write_text(json.dumps({"limits": limits, "results": results}, indent=1) + "\n")
    return 1 if any("failed" in r for found in results.values() for r in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
