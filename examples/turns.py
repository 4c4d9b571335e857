#!/usr/bin/env python3
"""Memory, steps and the host's time under each allocator in turns, every run in a fresh process.

    python examples/turns.py --json turns.jsonl                           # again until it is done
    python examples/turns.py --json turns.jsonl --programs fsdp pipeline  # those of two ranks
    python examples/turns.py --json turns.jsonl --table                   # the tables so far

FSDP2 and Megatron-LM's interleaved pipeline train over two GPUs; the others on one each, two at
once where there are two, each then kept to half of the cores. Nothing limits memory, and no plans
are kept from run to run, so that first steps count. The processes of a turn start side by side
before any of it is measured (workers.py), and nothing starts beside a run.

Steady are the steps after the first eight. Runs are kept in --json one by one, and what is there
is not run again (ledger.py). The exit status is 0 if all was measured, 75 if the time was up
before, 1 if a run failed.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Callable

import batches
import harness
import ledger
import machine
import train_megatron
import turns_table
import workers

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Program:
    """`seconds` is about what a run takes: programs of one rank are shared out by it."""

    title: str
    script: str
    options: str
    seconds: int
    ranks: int = 1
    missing: Callable[[], str] = lambda: ""


PROGRAMS = {
    "fsdp": Program(
        "FSDP2, Llama 0.55B", "train_fsdp.py", "--layers 8 --accumulate 4 --steps 14", 15, 2
    ),
    "pipeline": Program(
        "Megatron-LM, pipeline 2 x virtual 4", "train_artifact.py",
        "--layers 16 --tensor 1 --pipeline 2 --virtual 4 --batch 1 --steps 12", 22, 2,
        missing=lambda: train_megatron.missing(),
    ),
    "megatron": Program(
        "Megatron-LM, 16 experts", "train_megatron.py", "--experts 16 --steps 12", 18,
        missing=lambda: train_megatron.missing(),
    ),
    "hf": Program(
        "HF Trainer, variable lengths", "train_hf.py", "--steps 24", 10,
        missing=harness.needs("transformers", "accelerate"),
    ),
    "mixtral": Program(
        "Mixtral-like, 8 experts", "train_moe.py", "--preset mixtral --steps 18", 7
    ),
    "deepseek": Program(
        "DeepSeek-V3-like, 32 experts", "train_deepseek.py", "--steps 14", 20,
        missing=harness.needs("transformers"),
    ),
    "generation": Program(
        "Generation, transformers", "generate.py", "--steps 14", 20,
        missing=harness.needs("transformers"),
    ),
}  # fmt: skip


class Bench:
    """What is asked of the ledger, and what it has."""

    def __init__(self, args, book):
        self.args, self.book = args, book

    def options(self, name):
        return [*PROGRAMS[name].options.split(), *self.args.rest]

    def key(self, name, allocator, turn):
        options = " ".join(self.options(name))
        return {"program": name, "options": options, "allocator": allocator, "turn": turn}

    def runs(self, name, allocator):
        """What there is, by turn."""
        found = {turn: self.key(name, allocator, turn) for turn in range(self.args.turns)}
        return {
            turn: self.book.entries[ledger.key_of(key)]
            for turn, key in found.items()
            if self.book.has(key)
        }

    def turn(self, names, turn, gpus):
        """The runs of a turn. A program's share a GPU, and no allocator is always the first: at
        the very first, where a machine compiles kernels for all later runs, it is the last named,
        so that the others do not pay for it."""
        on, those = places(names, turn, gpus), self.args.allocators
        those = [those[(place + turn - 1) % len(those)] for place in range(len(those))]
        return [
            batches.Run(self.key(name, allocator, turn), HERE / PROGRAMS[name].script,
                        self.options(name), allocator, on[name])
            for name in names
            for allocator in those
        ]  # fmt: skip


def places(names, turn, gpus):
    """Each program's GPUs. Those of one rank are shared out so that all GPUs are busy about as
    long, and change places from turn to turn."""
    found, load = {}, [0] * gpus
    for name in sorted(names, key=lambda name: -PROGRAMS[name].seconds):
        if PROGRAMS[name].ranks > 1:
            found[name] = tuple(range(PROGRAMS[name].ranks))
            continue
        least = load.index(min(load))
        load[least] += PROGRAMS[name].seconds
        found[name] = ((least + turn) % gpus,)
    return found


def main(argv=None, those=None, here=None):
    """`those` and `here` stand for workers and the machine in tests."""
    args = parse_arguments(argv)
    if args.table:
        print(turns_table.tables(Bench(args, ledger.Ledger(args.json, 0)), PROGRAMS))
        return 0
    here, status = here or machine.here("turns.py"), 0
    gpus = here.gpus
    skipped = {name: why for name in args.programs if (why := missing(name, gpus))}
    for name, why in skipped.items():
        print(f"{name}: not run: {why}")
    names = [name for name in args.programs if name not in skipped]
    with those or workers.Workers(gpus) as those:
        bench = Bench(args, ledger.Ledger(args.json, args.budget, those.launch))
        bench.book.check_device(here.device)
        batch = batches.Batches(bench.book, those, gpus)
        try:
            for turn in range(args.turns):
                batch.run(bench.turn(names, turn, gpus))
        except ledger.OutOfTime:
            status = ledger.EXIT_MORE
            print("not all is measured: run this again", file=sys.stderr)
    print(turns_table.tables(bench, PROGRAMS))
    return 1 if batch.broken else status


def missing(name, gpus):
    needs = PROGRAMS[name].ranks
    if gpus < needs:
        return f"needs {needs} GPUs, here {'is' if gpus == 1 else 'are'} {gpus}"
    return PROGRAMS[name].missing()


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument(
        "--allocators", nargs="+", default=["native", "expandable", "stalloc"], metavar="NAME",
        help="native first, what is compared with all others last",
    )  # fmt: skip
    parser.add_argument("--turns", type=harness.positive, default=5)
    return harness.parse_known(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
