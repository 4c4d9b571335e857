#!/usr/bin/env python3
"""Runs one training example under several GPU memory allocators and compares them.

Each allocator gets a process of its own, one after the other, on the same device. Options that
are not listed here go to the example::

    python examples/compare.py --steps 12
    python examples/compare.py --steps 30 --eval-every 5 --batch-change 15:4
    python examples/compare.py --allocators native stalloc stalloc:plan=off -- --recompute

The exit status is 0 only if every run finished, all losses and final weights are the same bit
for bit, and stalloc served requests from its plan.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import measure

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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements here")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="per run")
    args, rest = parser.parse_known_args(argv)
    args.rest = [option for option in rest if option != "--"]
    return args


def run(args, allocator):
    """One training run in its own process: its report, or {"failed": why}."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, str(args.script), *args.rest]
        command += ["--allocator", allocator, "--json", str(output)]
        try:
            status = subprocess.run(command, timeout=args.timeout).returncode
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {args.timeout:g} s"}
        report = json.loads(output.read_text()) if output.exists() else {}
    if status == harness.EXIT_OUT_OF_MEMORY:
        report["failed"] = f"out of memory in step {report['out_of_memory']['step']}"
    elif status < 0:
        report["failed"] = f"killed by signal {-status}"
    elif status != 0:
        report["failed"] = f"exit status {status}"
    return report


def differences(reference, report):
    """Where two finished runs did not compute the same, in words."""
    found = []
    for expected, got in zip(reference["steps"], report["steps"]):
        for key in ("loss", "evaluation"):
            if expected.get(f"{key}_bits") != got.get(f"{key}_bits"):
                found.append(
                    f"step {got['step']}: {key} {got.get(key)} ({got.get(f'{key}_bits')}), "
                    f"expected {expected.get(key)} ({expected.get(f'{key}_bits')})"
                )
    if len(reference["steps"]) != len(report["steps"]):
        found.append(f"{len(report['steps'])} steps, expected {len(reference['steps'])}")
    if reference.get("checksum") != report.get("checksum"):
        found.append(
            f"final weights differ: {report.get('checksum')}, expected {reference.get('checksum')}"
        )
    return found


def reference_of(reports):
    """The run the others are held against: the first that finished, native by default."""
    return next((report for report in reports.values() if "failed" not in report), None)


def faults_of(name, report, reference):
    """What is wrong with a run; nothing means success."""
    if "failed" in report:
        return [report["failed"]]
    faults = differences(reference, report)
    if is_stalloc(name) and report["summary"]["hits"] == 0:
        faults.append("no request was served from a plan (0 hits)")
    return faults


def is_stalloc(name):
    return name.startswith("stalloc")


def table(reports):
    """The comparison as a Markdown table."""
    reference = reference_of(reports)
    lines = [
        "| allocator | peak reserved | last third's peak reserved | peak load | fragmentation "
        "| hits | misses | median step | same bits |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name, report in reports.items():
        if "failed" in report:
            lines.append(f"| {name} | {report['failed']} | | | | | | | |")
            continue
        summary = report["summary"]
        counts = ("–", "–")
        if is_stalloc(name):
            counts = (f"{summary['hits']:,}", f"{summary['misses']:,}")
        same = "NO" if differences(reference, report) else "yes"
        lines.append(
            f"| {name} | {measure.mib(summary['peak_reserved'])} "
            f"| {measure.mib(summary['steady_reserved'])} "
            f"| {measure.mib(summary['peak_load'])} | {summary['fragmentation']:.2%} "
            f"| {counts[0]} | {counts[1]} | {summary['median_step_seconds'] * 1e3:.1f} ms "
            f"| {same} |"
        )
    return "\n".join(lines)


def phase_table(reports):
    """Hits per phase of the stalloc runs; empty if the run had a single phase."""
    lines = []
    for name, report in reports.items():
        phases = report.get("summary", {}).get("phases", {})
        if not is_stalloc(name) or len(phases) < 2:
            continue
        for phase, sums in phases.items():
            made = sums["hits"] + sums["misses"]
            share = f"{sums['hits'] / made:.2%}" if made else "–"
            lines.append(
                f"| {name} | {phase} | {sums['steps']} | {sums['hits']:,} "
                f"| {sums['misses']:,} | {share} |"
            )
    if lines:
        lines[:0] = [
            "| allocator | phase | steps | hits | misses | hit rate |",
            "|---|---|--:|--:|--:|--:|",
        ]
    return "\n".join(lines)


def title(script, reports):
    """What was run, and on what."""
    report = next((r for r in reports.values() if "device" in r), None)
    if report is None:
        return f"{script.stem}: no run got as far as a report"
    arguments = report["arguments"]
    shown = ("layers", "width", "batch", "seq", "steps", "recompute", "eval_every", "batch_change")
    options = ", ".join(
        f"{key.replace('_', ' ')} {arguments[key]}" for key in shown if arguments.get(key)
    )
    size = f"{report['parameters'] / 1e9:.2f}B weights, " if "parameters" in report else ""
    return (
        f"{script.stem}: {size}{options}\n"
        f"{report['device']}, PyTorch {report['torch']}, CUDA {report['cuda']}"
    )


def main(argv=None):
    args = parse_arguments(argv)
    reports = {}
    for allocator in args.allocators:
        label, again = allocator, 1
        while label in reports:  # asked for twice: the second finds what the first saved
            again += 1
            label = f"{allocator} ({again})"
        print(f"== {label}", file=sys.stderr, flush=True)
        reports[label] = run(args, allocator)
    print(f"\n{title(args.script, reports)}\n\n{table(reports)}")
    phases = phase_table(reports)
    if phases:
        print(f"\n{phases}")
    if args.json:
        args.json.write_text(json.dumps(reports, indent=1) + "\n")
    reference = reference_of(reports)
    faults = [
        f"{name}: {fault}"
        for name, report in reports.items()
        for fault in faults_of(name, report, reference)
    ]
    print("\n" + ("\n".join(faults) if faults else "Losses and weights agree bit for bit."))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
