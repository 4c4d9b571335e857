#!/usr/bin/env python3
"""The runs of the STAlloc paper's own evaluation, as near as the GPUs here allow.

    python examples/artifact.py --json artifact.jsonl                   # again until it is done
    python examples/artifact.py --json artifact.jsonl --rows llama2-7b/VR opt-1.3b
    python examples/artifact.py --json artifact.jsonl --table           # the tables so far

Rows are GPT-2 and Llama2-7B on Megatron-LM, one rank of tensor 4 x pipeline 2 beside fake others
(train_artifact.py): naive, with a virtual pipeline (V), recomputation (R), both, and ZeRO's
optimizer with it (ZR); Qwen1.5-MoE with its experts over two GPUs; and GMLake's OPT-1.3B with LoRA,
recomputation and sharded weights over two. Each row trains under PyTorch's own allocator, with
expandable segments, under cudaMallocAsync, GMLake's algorithm and stalloc. The figure is the
paper's: memory allocated at most over memory reserved at most. What differs from the paper is said
with each row.

At the end, --parts throughput: for each allocator the configuration of Llama2-7B that fits into
--cap GiB and trains most tokens a second: with each number of layers recomputed, the micro-batches
up to the largest that fits. The fastest runs again, --turns times on one GPU, allocators in turns.
An allocator's runs share a process there (workers.py).

Of two GPUs each has rows of its own, and half of the cores. Runs are kept in --json one by one, and
what is there is not run again (ledger.py). The exit status is 0 if all was measured, 75 if the time
was up before, 1 if a run failed.
"""

import dataclasses
import itertools
import sys
from pathlib import Path

import artifact_table
import batches
import harness
import ledger
import machine
import names
import train_megatron
import workers

HERE = Path(__file__).resolve().parent
STEPS = "--steps 6"
SIDE = 2  # rows whose processes start side by side


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


FAKE = f"{artifact_table.FAKE}, 8 of 32 microbatches"


ROWS = {
    **{f"llama2-7b/{kind}": Row("train_artifact.py", f"--model llama2-7b {more}".strip(),
                                differs=FAKE) for kind, more in KINDS.items()},
    **{f"gpt2/{kind}": Row("train_artifact.py", f"--model gpt2 --batch 8 --seq 1024 {more}".strip(),
                           differs=FAKE) for kind, more in KINDS.items()},
    "qwen1.5-moe": Row(
        "train_artifact.py", "--model qwen1.5-moe --tensor 1 --pipeline 1 --experts-over 2 "
        "--layers 8 --batch 2 --recompute-layers 4 --microbatches 4", 2,
        "8 of 24 layers, over 2 GPUs instead of 32: no tensor or pipeline parallelism",
    ),
    "opt-1.3b": Row("train_opt.py", "--batch 40", 2, "FSDP2 for DeepSpeed, 2 GPUs instead of 4"),
}  # fmt: skip
# Of the throughput: micro-batches, and layers recomputed of the 16 that a rank has.
BATCHES = (4, 5, 6, 7, 8, 10)
RECOMPUTED = (0, 4, 8, 16)


class Bench:
    def __init__(self, args, book):
        self.args, self.book = args, book

    def rows(self, batch, wanted, gpus):
        """All rows: one on each GPU at once, or one of two ranks. A row's allocators share a GPU,
        so that their times can be compared. The processes of a few rows start together."""
        single = [name for name in wanted if ROWS[name].gpus == 1]
        some = SIDE * gpus
        groups = [single[at : at + some] for at in range(0, len(single), some)]
        groups += [[name] for name in wanted if ROWS[name].gpus > 1]
        for turn, group in itertools.product(range(self.args.turns), groups):
            batch.run([
                self.row(name, allocator, turn, (place + turn) % gpus)
                for place, name in enumerate(group)
                for allocator in self.turned(turn)
            ])  # fmt: skip

    def turned(self, turn):
        """The allocators, another one first in each turn."""
        those = self.args.allocators
        return [those[(at + turn) % len(those)] for at in range(len(those))]

    def row(self, name, allocator, turn, gpu):
        row = ROWS[name]
        options = f"{row.options} {STEPS}"
        gpus = (gpu,) if row.gpus == 1 else tuple(range(row.gpus))
        words = [*options.split(), *self.args.rest]
        key = key_of(name, options, allocator, turn)
        return batches.Run(key, HERE / row.script, words, allocator, gpus)

    def ran(self, name, allocator):
        """The runs of a row that there are, by turn."""
        keys = [self.row(name, allocator, turn, 0).key for turn in range(self.args.turns)]
        return {
            key["turn"]: self.book.entries[ledger.key_of(key)] for key in keys if self.book.has(key)
        }

    def throughput(self, found, gpus=1):
        """Puts into `found`, by allocator: what was tried, as {(batch, recomputed): result}, on
        all GPUs; the fastest configuration that fits, None if none does; and the results of its
        turns so far, on one GPU."""
        those, tried = self.args.allocators, {}

        def look(gpu):
            for allocator in those[gpu::gpus]:
                tried[allocator] = self.fitting(allocator, gpu, those[gpu::gpus])

        batches.side_by_side(look, gpus)
        for allocator in those:
            speeds = {
                how: run["per_second"] for how, run in tried[allocator].items() if not run["oom"]
            }
            found[allocator] = tried[allocator], max(speeds, key=speeds.get, default=None), []
        for turn, allocator in itertools.product(range(1, self.args.turns + 1), those):
            _, best, results = found[allocator]
            if best:
                results.append(self.capped(allocator, *best, turn, 0, those))

    def fitting(self, allocator, gpu, beside):
        """What was tried. A larger micro-batch needs more, more layers recomputed less: so with
        each number of layers the batches are tried from the largest that fitted on."""
        found, place = {}, 0
        for layers in RECOMPUTED:
            while place < len(BATCHES):
                run = self.capped(allocator, BATCHES[place], layers, 0, gpu, beside)
                found[BATCHES[place], layers] = run
                if run["oom"]:
                    break
                place += 1
        return found

    def capped(self, allocator, batch, layers, turn, gpu, beside):
        options = f"--model llama2-7b --batch {batch} --recompute-layers {layers} "
        options += f"--microbatches 4 {STEPS}"
        key = key_of("throughput", options, allocator, turn, self.args.cap)
        words = [*options.split(), *self.args.rest, "--memory-cap", str(self.args.cap)]
        how = {"turn": turn, "beside": beside, "gpus": (gpu,)}
        return self.book.run(key, HERE / "train_artifact.py", words, allocator, **how)


def key_of(name, options, allocator, turn, cap=None):
    """What tells a run from others; `cap` is in GiB."""
    return {"program": name, "options": options, "allocator": allocator, "turn": turn, "cap": cap}


def main(argv=None, those=None, here=None):
    """`those` and `here` stand for workers and the machine in tests."""
    args = parse_arguments(argv)
    here = machine.Machine(1) if args.table else here or machine.here("artifact.py")
    with those or workers.Workers(here.gpus) as those:
        return run(args, those, here)


def run(args, those, here):
    book, gpus = ledger.Ledger(args.json, args.budget, those.launch), here.gpus
    if not args.table:
        book.check_device(here.device)
    args.cap = args.cap or book.cap() or int(here.memory) - machine.SPARE
    bench, batch, status, found = Bench(args, book), batches.Batches(book, those, gpus), 0, {}
    skipped = {} if args.table else {name: ROWS[name].missing(gpus) for name in args.rows}
    skipped = {name: why for name, why in skipped.items() if why}
    try:
        if not args.table:
            bench.rows(batch, [name for name in args.rows if name not in skipped], gpus)
        if "throughput" in args.parts and (args.table or not train_megatron.missing()):
            bench.throughput(found, gpus)
    except ledger.OutOfTime:
        status = ledger.EXIT_MORE
    except ledger.Broken as error:
        print(error, file=sys.stderr)
        status = 1
    status = 1 if batch.broken else status
    skipped.update(batch.broken)
    for line in sorted(book.places):
        print(f"{line}\n")
    print(artifact_table.rows(bench, {name: ROWS[name].differs for name in args.rows}, skipped))
    if found:
        print(f"\n{artifact_table.throughput(found, args.cap, RECOMPUTED[-1])}")
    if status == ledger.EXIT_MORE and not args.table:
        print("not all is measured: run this again", file=sys.stderr)
    return 0 if args.table else status


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument(
        "--parts", nargs="+", choices=("rows", "throughput"), default=["rows", "throughput"]
    )
    parser.add_argument("--allocators", nargs="+", default=list(names.NAMES), metavar="NAME")
    parser.add_argument("--turns", type=harness.positive, default=5, help="runs of each row")
    parser.add_argument(
        "--cap", type=float, metavar="GIB",
        help="of the throughput (default: the device's memory, less 3 that contexts take)",
    )  # fmt: skip
    args = harness.parse_known(parser, argv)
    args.budget = 0 if args.table else args.budget
    if "rows" not in args.parts:
        args.rows = []
    return args


if __name__ == "__main__":
    sys.exit(main())
