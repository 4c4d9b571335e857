#!/usr/bin/env python3
"""The least memory that each program fits in or runs at full speed in; what fits into --cap GiB.

    python examples/limit.py --json limit.jsonl --budget 580                # again until it is done
    python examples/limit.py --json limit.jsonl --programs hf mixtral --turns 5
    python examples/limit.py --json limit.jsonl --programs lora --parts curve
    python examples/limit.py --json limit.jsonl --table                     # the tables so far

Each program trains under each allocator, in a process of its own, with a limit on its memory
(torch.cuda.set_per_process_memory_fraction) that is a multiple of its peak load: the most that
its tensors need at once, whatever the allocator.

    curve     the step's time at limits from 1.5 down to 1.005 of that, and without one
    knees     the least limit that the program fits in, and the least at which it runs at full
              speed: its median step is at most 1.01 of the fastest allocator's without a limit
    largest   the largest batch, or the longest sequences, that train in --cap GiB, and how many
              tokens a second

What ran out of memory at one limit is not tried at a smaller one. Times are taken alone on the
device, allocators in turns, --turns times, each turn in one process an allocator, which sets the
program up anew for each limit (workers.py); of two GPUs each has programs of its own, and half of
the cores. Which limits suffice is looked for side by side, each
run in a process of its own; the least that does is always one of these. Runs are kept in --json
one by one, and what is there is not run again (ledger.py). The exit status is 0 if all was
measured, 75 if the time was up before, 1 if a run failed.
"""

import dataclasses
import itertools
import sys
from typing import Callable

import batches
import harness
import ledger
import limit_table
import machine
import train_megatron
import workers
from limit_bench import CURVE, Bench


@dataclasses.dataclass(frozen=True)
class Program:
    """`size` is the option that makes a step larger, in units; `small` its default, in these."""

    title: str
    script: str
    options: str
    size: str
    unit: int
    small: int
    missing: Callable[[], str] = lambda: ""


PROGRAMS = {
    "hf": Program(
        "HF Trainer, variable lengths", "train_hf.py", "--steps 24", "--batch", 1, 8,
        harness.needs("transformers", "accelerate"),
    ),
    "mixtral": Program(
        "Mixtral-like, 8 experts", "train_moe.py", "--preset mixtral --steps 18", "--seq", 32, 32
    ),
    "lora": Program(
        "HF Trainer, LoRA", "train_hf.py", "--lora --steps 24", "--batch", 1, 8,
        harness.needs("transformers", "accelerate", "peft"),
    ),
    "fsdp": Program(
        "FSDP2, variable lengths", "train_fsdp.py", "--steps 24", "--longest", 32, 64
    ),
    "megatron": Program(
        "Megatron-LM, 16 experts", "train_megatron.py", "--experts 16 --steps 12", "--batch", 1, 4,
        train_megatron.missing,
    ),
}  # fmt: skip


def measure(benches, args, gpus=1):
    """Everything, in an order in which what is there first says most; on each GPU its programs.

    Returns the errors of programs that failed; the others go on.
    """
    stages = [lambda bench: bench.curve(0)]
    if "knees" in args.parts:
        stages.append(lambda bench: bench.knees(1))
    if "largest" in args.parts:
        stages.append(lambda bench: bench.largest())
    stages += [lambda bench, turn=turn: bench.curve(turn) for turn in range(1, args.turns)]
    if "knees" in args.parts and args.turns > 1:
        stages.append(lambda bench: bench.knees(args.turns))
    broken = {}

    def measure_on(gpu):
        for stage, bench in itertools.product(stages, benches):
            if bench.gpu != gpu or bench.name in broken:
                continue
            try:
                stage(bench)
            except ledger.Broken as error:
                broken[bench.name] = error
                print(error, file=sys.stderr, flush=True)

    batches.side_by_side(measure_on, gpus)
    return broken


def main(argv=None, start=None, here=None):
    """`start` and `here` stand for workers and the machine in tests."""
    args = parse_arguments(argv)
    here = machine.Machine(1) if args.table else here or machine.here("limit.py")
    with workers.Workers(here.gpus) as those:
        return run(args, start or those.launch, here)


def run(args, start, here):
    book = ledger.Ledger(args.json, args.budget, start)
    if not args.table:
        book.check_device(here.device)
    args.device = here.memory
    args.cap = args.cap or book.cap() or int(here.memory) - machine.SPARE
    benches, status = [], 0
    for name in args.programs:
        why = "" if args.table else PROGRAMS[name].missing()
        if why:
            print(f"{name}: not run: {why}")
        else:
            benches.append(Bench(name, PROGRAMS[name], args, book, len(benches) % here.gpus))
    try:
        if not args.table and measure(benches, args, here.gpus):
            status = 1
    except ledger.OutOfTime:
        status = ledger.EXIT_MORE
    print(limit_table.tables(benches))
    if status == ledger.EXIT_MORE:
        print("not all is measured: run this again", file=sys.stderr)
    return status


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument(
        "--parts", nargs="+", choices=("curve", "knees", "largest"),
        default=["curve", "knees", "largest"], help="the curve is measured always",
    )  # fmt: skip
    parser.add_argument(
        "--allocators", nargs="+", default=["native", "expandable", "stalloc"], metavar="NAME"
    )
    parser.add_argument("--limits", nargs="+", type=float, default=CURVE, help="of the curve")
    parser.add_argument("--turns", type=harness.positive, default=1, help="runs of each time")
    parser.add_argument(
        "--cap", type=float, metavar="GIB",
        help="for the largest (default: the device's, less 3 that contexts take)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=harness.positive, default=3, help="side by side at most")
    return harness.parse_known(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
