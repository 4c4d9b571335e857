#!/usr/bin/env python3
"""Runs compare.py's comparison over a list of training runs, within a budget of time.

    python examples/suite.py --out results
    python examples/suite.py --only mixtral qwen --allocators native expandable stalloc
    python examples/suite.py --tiny --steps 3          # everything, in a minute or two, on a CPU

Each run, under each allocator, in a process of its own. Writes suite.json (everything that was
measured) and suite.md (tables) into --out, after every comparison anew. Options that are not
listed here go to every example, behind its own. Runs of programs that others wrote (hf, pyg,
megatron) are skipped where those are not installed, and the tables say why.

The exit status is 0 only if all others ran and passed as compare.py has it.
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Callable

import judge
import launch
import train_megatron
from harness import needs, parse_known

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Run:
    script: str
    options: str
    missing: Callable[[], str] = lambda: ""  # why it cannot run here

    @property
    def path(self):
        return HERE / self.script


RUNS = {
    "llama": Run("train_llama.py", "--steps 30 --eval-every 5 --batch-change 15:6"),
    "mixtral": Run("train_moe.py", "--preset mixtral --steps 15"),
    "qwen": Run("train_moe.py", "--preset qwen --recompute --steps 12"),
    "varlen": Run("train_varlen.py", "--steps 24"),
    "fine": Run("train_moe.py", "--preset fine --steps 12"),
    "packed": Run("train_varlen.py", "--packed --steps 20"),
    "vision": Run("train_vision.py", "--steps 60"),
    "recompute": Run("train_llama.py", "--recompute --batch 16 --steps 12"),
    "hf": Run("train_hf.py", "--steps 30", missing=needs("transformers", "accelerate")),
    "hf_lora": Run(
        "train_hf.py", "--lora --steps 30", missing=needs("transformers", "accelerate", "peft")
    ),
    "pyg": Run("train_pyg.py", "--steps 40", missing=needs("torch_geometric")),
    "megatron_dense": Run("train_megatron.py", "--steps 16", missing=train_megatron.missing),
    "megatron_moe": Run(
        "train_megatron.py", "--experts 16 --steps 16", missing=train_megatron.missing
    ),
}


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else is passed to the examples."
    )
    parser.add_argument("--only", nargs="+", choices=tuple(RUNS), default=list(RUNS))
    parser.add_argument(
        "--allocators", nargs="+", default=["native", "expandable", "stalloc"], metavar="NAME"
    )
    parser.add_argument("--budget", type=float, default=540, metavar="SECONDS", help="for all")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="FOLDER")
    return parse_known(parser, argv)


def overview(results, skipped):
    """One line per run and allocator, and one for each that was skipped."""
    lines = [
        "| run | allocator | peak reserved | fragmentation | hit rate | median step | same bits |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for name, reports in results.items():
        reference = judge.reference_of(reports)
        for label, report in reports.items():
            if "failed" in report:
                lines.append(f"| {name} | {label} | {report['failed']} | | | | |")
                continue
            summary = report["summary"]
            made = summary["hits"] + summary["misses"]
            lines.append(
                f"| {name} | {label} | {judge.measure.mib(summary['peak_reserved'])} "
                f"| {summary['fragmentation']:.2%} "
                f"| {format(summary['hits'] / made, '.2%') if made else '–'} "
                f"| {summary['median_step_seconds'] * 1e3:.1f} ms "
                f"| {'NO' if judge.differences(reference, report) else 'yes'} |"
            )
    lines += [f"| {name} | skipped: {why} | | | | | |" for name, why in skipped.items()]
    return "\n".join(lines)


def write(folder, results, skipped):
    everything = {**results, **{name: {"skipped": why} for name, why in skipped.items()}}
    (folder / "suite.json").write_text(json.dumps(everything, indent=1) + "\n")
    parts = [overview(results, skipped)]
    parts += [f"## {name}\n\n{judge.in_full(RUNS[name].path, r)}" for name, r in results.items()]
    (folder / "suite.md").write_text("\n\n".join(parts) + "\n")


def main(argv=None):
    args = parse_arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.budget
    results, skipped = {}, {}
    for name in args.only:
        run = RUNS[name]
        why = run.missing()
        print(f"\n==== {name}{why and ': skipped: '}{why}", file=sys.stderr, flush=True)
        if why:
            skipped[name] = why
            write(args.out, results, skipped)
            continue
        results[name] = launch.launch_all(
            run.path,
            [*run.options.split(), *args.rest],
            args.allocators,
            lambda: end - time.monotonic(),
        )
        write(args.out, results, skipped)
    print((args.out / "suite.md").read_text())
    return 1 if any(judge.all_faults(reports) for reports in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
