#!/usr/bin/env python3
"""The runs of the STAlloc paper's own evaluation, as near as the GPUs here allow.

    python examples/artifact.py --json artifact.jsonl                   # again until it is done
    python examples/artifact.py --json artifact.jsonl --rows llama2-7b/VR opt-1.3b
    python examples/artifact.py --json artifact.jsonl --table           # the tables so far

Rows are GPT-2 and Llama2-7B on Megatron-LM, one rank of tensor 4 x pipeline 2 beside fake others
(train_artifact.py): naive, with a virtual pipeline (V), recomputation (R), both, and ZeRO's
optimizer with it (ZR); Qwen1.5-MoE with its experts over two GPUs; and GMLake's OPT-1.3B with LoRA,
recomputation and sharded weights over two. Each row trains under PyTorch's own allocator, with
expandable segments, under GMLake's algorithm and under stalloc. The figure is the paper's: memory
allocated at most over memory reserved at most. What differs from the paper is said with each row.

At the end, --parts throughput: for each allocator the configuration of Llama2-7B that fits into
--cap GiB and trains most tokens a second, of several micro-batches with as little recomputation as
each allows. An allocator's runs share a process there (workers.py).

Rows run alone on the device, or several --jobs side by side, which says what they hold but not how
long a step takes. Runs are kept in --json one by one, and what is there is not run again
(ledger.py). The exit status is 0 if all was measured, 75 if the time was up before, 1 if a run
failed.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import sys
from pathlib import Path

import artifact_table
import harness
import ledger
import train_megatron
import workers

HERE = Path(__file__).resolve().parent
EXIT_MORE = 75
ALLOCATORS = ("native", "expandable", "stalloc:pool=gmlake", "stalloc")
STEPS = "--steps 6"


@dataclasses.dataclass(frozen=True)
class Row:
    script: str
    options: str
    gpus: int = 1
    differs: str = ""  # from the run that it stands for

    def missing(self, gpus):
        absent = harness.missing("transformers", "peft") if "opt" in self.script else ""
        if "artifact" in self.script:
            absent = train_megatron.missing()
        if not absent and gpus < self.gpus:
            absent = f"needs {self.gpus} GPUs, here {'is' if gpus == 1 else 'are'} {gpus}"
        return absent


# Layers of a chunk that are recomputed: 16 a rank in the paper, which is all of Llama's.
KINDS = {
    "N": "",
    "V": "--virtual 2",
    "R": "--recompute-layers 16",
    "VR": "--virtual 2 --recompute-layers 8",
    "ZR": "--zero --recompute-layers 16",
}
FAKE = "one rank of 8, 8 of 32 microbatches"
ROWS = {
    **{f"gpt2/{kind}": Row("train_artifact.py", f"--model gpt2 --batch 8 --seq 1024 {more}".strip(),
                           differs=FAKE) for kind, more in KINDS.items()},
    **{f"llama2-7b/{kind}": Row("train_artifact.py", f"--model llama2-7b {more}".strip(),
                                differs=FAKE) for kind, more in KINDS.items()},
    "qwen1.5-moe": Row(
        "train_artifact.py", "--model qwen1.5-moe --tensor 1 --pipeline 1 --experts-over 2 "
        "--layers 8 --batch 2 --recompute-layers 4 --microbatches 4", 2,
        "8 of 24 layers, over 2 GPUs instead of 32: no tensor or pipeline parallelism",
    ),
    "opt-1.3b": Row("train_opt.py", "--batch 40", 2, "FSDP2 for DeepSpeed, 2 GPUs instead of 4"),
}  # fmt: skip
# Of the throughput: micro-batches, and layers recomputed of the 16 that a rank has.
BATCHES = (8, 6, 4)
RECOMPUTED = (0, 4, 8, 12, 16)


class Bench:
    def __init__(self, args, book):
        self.args, self.book = args, book

    def run(self, name, row, allocator, turn, cap=None, how=None):
        """A run's result; `cap` is in GiB, `how` for the launcher."""
        options = f"{row.options} {STEPS}"
        key = key_of(name, options, allocator, turn, cap, self.args.jobs == 1)
        words = [*options.split(), *self.args.rest]
        if cap is not None:
            words += ["--memory-cap", str(cap)]
        how = how or {"gpus": tuple(range(row.gpus))}
        return self.book.run(key, HERE / row.script, words, allocator, **how)

    def ran(self, name, allocator):
        """The runs of a row that there are, and those of them that were alone on the device."""
        options = f"{ROWS[name].options} {STEPS}"
        found, alone = [], []
        for turn, by_itself in itertools.product(range(self.args.turns), (True, False)):
            key = key_of(name, options, allocator, turn, None, by_itself)
            run = self.book.entries.get(ledger.key_of(key))
            found += [run] if run else []
            alone += [run] if run and by_itself else []
        return found, alone

    def rows(self, names):
        """All rows, the allocators of a row in turns. Returns the errors of those that failed."""
        broken = {}

        def run(name, allocator, turn):
            if name in broken:
                return
            try:
                self.run(name, ROWS[name], allocator, turn)
            except ledger.Broken as error:
                broken[name] = str(error)
                print(error, file=sys.stderr, flush=True)

        every = itertools.product(range(self.args.turns), names, self.args.allocators)
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(run, name, a, turn) for turn, name, a in every]:
                done.result()
        return broken

    def throughput(self):
        """By allocator: what fits with each micro-batch, as (batch, recomputed, result)."""
        found = {}
        for allocator in self.args.allocators:
            found[allocator] = []
            for batch in BATCHES:
                fits = self.least_recomputed(allocator, batch)
                if fits is not None:
                    found[allocator].append((batch, fits, self.capped(allocator, batch, fits)))
        return found

    def capped(self, allocator, batch, recomputed, turn=0):
        options = f"--model llama2-7b --batch {batch} --recompute-layers {recomputed}"
        row = Row("train_artifact.py", options)
        how = {"turn": turn, "beside": self.args.allocators}
        return self.run("throughput", row, allocator, turn, self.args.cap, how)

    def least_recomputed(self, allocator, batch):
        """The fewest layers with which a micro-batch fits, by bisection; None if none suffices."""
        low, high = -1, len(RECOMPUTED)
        while low + 1 < high:
            middle = (low + high) // 2
            if self.capped(allocator, batch, RECOMPUTED[middle])["oom"]:
                low = middle
            else:
                high = middle
        return RECOMPUTED[high] if high < len(RECOMPUTED) else None


def key_of(name, options, allocator, turn, cap, alone):
    """What tells a run from others. Those that ran beside others have no time worth telling."""
    key = {"program": name, "options": options, "allocator": allocator, "turn": turn, "cap": cap}
    return key if alone else {**key, "alone": False}


def count_gpus():
    import torch

    return torch.cuda.device_count()


def main(argv=None, start=None, gpus=count_gpus):
    with workers.Workers() as those:
        return run(parse_arguments(argv), start or those.launch, gpus)


def run(args, start, gpus):
    book = ledger.Ledger(args.json, args.budget, start)
    bench, status, found = Bench(args, book), 0, None
    several = not args.table and any(ROWS[name].gpus > 1 for name in args.rows)
    here = gpus() if several else 1
    skipped = {} if args.table else {name: ROWS[name].missing(here) for name in args.rows}
    skipped = {name: why for name, why in skipped.items() if why}
    try:
        if not args.table:
            broken = bench.rows([name for name in args.rows if name not in skipped])
            skipped.update(broken)
            status = 1 if broken else 0
        if "throughput" in args.parts and (args.table or not train_megatron.missing()):
            found = bench.throughput()
    except ledger.OutOfTime:
        status = EXIT_MORE
    except ledger.Broken as error:
        print(error, file=sys.stderr)
        status = 1
    for line in sorted(book.places):
        print(f"{line}\n")
    print(artifact_table.rows(bench, {name: ROWS[name].differs for name in args.rows}, skipped))
    if found:
        print(f"\n{artifact_table.throughput(found, args.cap, RECOMPUTED[-1])}")
    if status == EXIT_MORE and not args.table:
        print("not all is measured: run this again", file=sys.stderr)
    return 0 if args.table else status


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else is passed to the programs."
    )
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the ledger")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument(
        "--parts", nargs="+", choices=("rows", "throughput"), default=["rows", "throughput"]
    )
    parser.add_argument("--allocators", nargs="+", default=list(ALLOCATORS), metavar="NAME")
    parser.add_argument("--turns", type=harness.positive, default=1, help="runs of each row")
    parser.add_argument(
        "--jobs", type=harness.positive, default=1, help="rows side by side, without times"
    )
    parser.add_argument("--cap", type=float, default=80, metavar="GIB", help="of the throughput")
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="of a piece")
    parser.add_argument("--table", action="store_true", help="run nothing")
    args, rest = parser.parse_known_args(argv)
    args.budget = 0 if args.table else args.budget
    args.rest = [option for option in rest if option != "--"]
    if "rows" not in args.parts:
        args.rows = []
    return args


if __name__ == "__main__":
    sys.exit(main())
