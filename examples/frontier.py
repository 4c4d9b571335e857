#!/usr/bin/env python3
"""The most tokens a second that each allocator reaches on devices of several sizes.

    python examples/frontier.py --json frontier.jsonl                  # again until it is done
    python examples/frontier.py --json frontier.jsonl --models 1.3b --sizes 24 32 40
    python examples/frontier.py --json frontier.jsonl --table          # the tables so far

A size is what the allocator may hold (ballast.py says how it is limited). At each size each
allocator trains in the fastest way that fits: micro-batches of 1 to 16 sequences, no layer
recomputed, every second or every one; with stalloc also what leaves for the host, optimizer states,
activations or both (frontier_search.py). Steps have the same tokens in all ways.

First each cell of the table has one run. Then what decides, the best peer and stalloc at each size,
has --turns runs, and the cell is their median. Each run is a process of its own; some start
together, and then none starts beside a run. Models share out the GPUs; what is compared ran on one.
Sizes come in groups, the first ones say most. Runs are kept in --json one by one, and what is there
is not run again (ledger.py). The exit status is 0 if all was measured, 75 if the time was up
before, 1 if a run failed.
"""

import dataclasses
import itertools
import json
import sys
from pathlib import Path
from typing import Callable

import batches
import frontier_table
import harness
import ledger
import machine
import train_megatron
import workers
from frontier_search import OFFLOADS, RECOMPUTED, Search

HERE = Path(__file__).resolve().parent
SIZES = ((24, 28, 32, 40), (22, 26, 30, 36, 48), (20, 44, 56, 64, 72, 80))
# Of the table, in the order in which they are measured.
COLUMNS = ("native", "expandable", "stalloc", "offload", "async", "gmlake")
TOGETHER = 4  # processes of an allocator that start side by side
IDLE = 8  # processes that wait for a run, at most: each holds a context on the GPU
MOST = 90  # seconds of a run


@dataclasses.dataclass(frozen=True)
class Model:
    """A program and its options. `weights` in billions; with gradients and AdamW's states each
    takes 16 bytes. A step has so many `sequences`, and `tokens` (on average)."""

    title: str
    weights: float
    options: str = ""
    script: str = "train_frontier.py"
    sequences: int = 16
    tokens: int = 16 * 2048
    batches: tuple = (1, 2, 4, 8)  # sequences of a micro-batch
    recompute: tuple = tuple(RECOMPUTED)
    offloads: tuple = OFFLOADS
    least_steps: int = 5
    missing: Callable[[], str] = lambda: ""

    def steps(self, way):
        return max(self.least_steps, way.steps)


MODELS = {
    "1.3b": Model("Llama-like, 1.34 B", 1.345),
    "lengths": Model("Llama-like, 1.34 B, lengths that vary", 1.345, "--lengths"),
    "2.7b": Model("Llama-like, 2.70 B", 2.702, "--shape 32 2560 6912 32000"),
    "hf": Model(
        "Llama, 0.75 B, in Hugging Face's Trainer", 0.748, "--sequences 16 --eval-every 0",
        "train_hf.py", tokens=16 * 1000, batches=(4, 8, 16), recompute=(0, 1),
        offloads=(("states",),), least_steps=12,
        missing=harness.needs("transformers", "accelerate"),
    ),
    "hf-2.7b": Model(
        "Llama, 2.73 B, in Hugging Face's Trainer", 2.728,
        "--width 4096 --sequences 16 --eval-every 0", "train_hf.py", tokens=16 * 1000,
        batches=(4, 8, 16), recompute=(0, 1), offloads=(("states",),), least_steps=12,
        missing=harness.needs("transformers", "accelerate"),
    ),
    "megatron": Model(
        "GPT, 0.94 B, in Megatron-LM", 0.937, "--sequences 16", "train_megatron.py",
        recompute=(0, 1), offloads=(), missing=train_megatron.missing,
    ),
}  # fmt: skip


class Starter:
    """Launches runs on a GPU in processes of their own."""

    def __init__(self, gpu, share, make=workers.Workers):
        self.gpus, self._those = (gpu,), make(share)
        self._idle = {}  # processes that wait for a run, by script and allocator

    def launch(self, script, options, allocator, timeout, **how):
        of = script, allocator
        if not self._idle.get(of):
            if sum(self._idle.values()) + TOGETHER > IDLE:
                self.end()
            self._those.prepare([(*of, self.gpus)] * TOGETHER)
            self._idle[of] = TOGETHER
        self._idle[of] -= 1
        return self._those.launch(script, options, allocator, timeout, gpus=self.gpus, **how)

    def end(self):
        self._those.__exit__()
        self._idle.clear()


class Bench:
    """One model: what it asks of the ledger, and what that has."""

    groups = SIZES

    def __init__(self, name, args, book, starter=None):
        self.name, self.model, self.args, self.book = name, MODELS[name], args, book
        self.starter = starter
        self._indexed, self._index = 0, {}

    def key(self, allocator, way, cap, turn=0):
        options = " ".join([*self.model.options.split(), *way.options(), *self.args.rest])
        return {"program": self.name, "options": options, "allocator": allocator, "cap": cap,
                "steps": self.model.steps(way), "turn": turn}  # fmt: skip

    def run(self, allocator, way, cap, turn):
        """The result of a run with at most `cap` GiB; None: no limit."""
        key = self.key(allocator, way, cap, turn)
        options = [*key["options"].split(), "--steps", str(key["steps"]), "--no-deterministic"]
        options += ["--memory-cap", str(cap)] if cap is not None else []
        start = self.starter.launch if self.starter else None
        how = {"profile": True} if way.by_host and cap is None else {}
        script = HERE / self.model.script
        return self.book.run(key, script, options, allocator, most=MOST, start=start, **how)

    def known(self, allocator, way):
        """The runs of a way that there are: by their limit in GiB, those of each turn."""
        if self._indexed != len(self.book.entries):
            self._indexed, self._index = len(self.book.entries), {}
            for key in self.keys():
                of = self._index.setdefault((key["allocator"], key["options"], key["steps"]), {})
                of.setdefault(key["cap"], []).append(self.book.entries[ledger.key_of(key)])
        key = self.key(allocator, way, None)
        return self._index.get((allocator, key["options"], key["steps"]), {})

    def limited(self, allocator, size):
        """Whether an allocator had any run with just this limit."""
        return any((key["allocator"], key["cap"]) == (allocator, size) for key in self.keys())

    def kernels(self, way):
        """What a step's kernels take, in ms; None if nobody knows."""
        runs = self.known("native", way).get(None, [])
        return next((run["device_ms"] for run in runs if run.get("device_ms")), None)

    def of_all(self, way):
        """The runs of a way under all allocators that came to their end without retries."""
        like = self.key(None, way, None)
        for key in self.keys():
            run = self.book.entries[ledger.key_of(key)]
            same = {**key, "allocator": None, "cap": None, "turn": 0} == like
            if same and not run["oom"] and not run["steady_retries"]:
                yield run

    def keys(self):
        """Of all runs of the model."""
        every = map(json.loads, list(self.book.entries))
        return [key for key in every if key["program"] == self.name]


def measure(bench, sizes, columns, broken):
    """The columns at these sizes, each once; prints a row for each. A column in which a run fails
    goes no further, and is put into `broken`."""
    search = Search(bench)
    for column, size in itertools.product(columns, sizes):
        if (bench.name, column) not in broken:
            cell(bench, search, column, size, broken)


def again(bench, sizes, columns, broken):
    """What decides at these sizes, until it has --turns runs: the best peer, and stalloc."""
    for turns, size in itertools.product(range(2, bench.args.turns + 1), sizes):
        row = frontier_table.row(bench, size)
        best = row.best() if row else None
        search = Search(bench, turns=turns)
        for column in (best, "stalloc", "offload"):
            if column in columns and (bench.name, column) not in broken:
                cell(bench, search, column, size, broken)


def cell(bench, search, column, size, broken):
    said = {"model": bench.name, "GiB": size, "column": column, "turns": search.turns}
    try:
        best = search.best(frontier_table.ALLOCATORS[column], size, column == "offload")
    except ledger.Broken as error:
        broken.add((bench.name, column))
        said |= {"failed": str(error)}
    else:
        if best is not None:
            said |= {"tokens/s": [round(rate) for rate in best.rates], "way": best.way.words()}
    print(json.dumps(said), flush=True)


def run(args, here, make=workers.Workers):
    book = ledger.Ledger(args.json, args.budget)
    book.check_device(here.device)
    most = int(here.memory) - machine.SPARE
    broken, late = set(), []

    def measure_on(gpu):
        starter = Starter(gpu, here.gpus, make)
        mine = [Bench(name, args, book, starter) for name in args.models[gpu :: here.gpus]]
        try:
            for bench, part, sizes in itertools.product(
                mine, (measure, again), groups(args.sizes, most)
            ):
                part(bench, sizes, args.columns, broken)
        except ledger.OutOfTime:
            late.append(gpu)
        finally:
            starter.end()

    batches.side_by_side(measure_on, here.gpus)
    return 1 if broken else ledger.EXIT_MORE if late else 0


def groups(sizes, most):
    """The sizes in their order of importance, none beyond what the device has."""
    chosen = (sizes,) if sizes else SIZES
    return [sorted({min(size, most) for size in group}) for group in chosen]


def main(argv=None, here=None, make=workers.Workers):
    """`here` and `make` stand for the machine and workers in tests."""
    args = parse_arguments(argv)
    status, wanted = 0, args.models
    if not args.table:
        absent = {name: why for name in wanted if (why := MODELS[name].missing())}
        for name, why in absent.items():
            print(f"{name}: not run: {why}")
        args.models = [name for name in wanted if name not in absent]
        status = run(args, here or machine.here("frontier.py", 4), make)
    book = ledger.Ledger(args.json, 0)
    print(frontier_table.tables([Bench(name, args, book) for name in wanted]))
    if status == ledger.EXIT_MORE:
        print("not all is measured: run this again", file=sys.stderr)
    return status


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--sizes", nargs="+", type=int, metavar="GIB", help="only these")
    parser.add_argument("--batches", nargs="+", type=int, help="only these micro-batches")
    parser.add_argument("--tries", type=int, default=3, help="ways to offload, at a size")
    parser.add_argument("--turns", type=harness.positive, default=3, help="runs of what decides")
    return harness.parse_known(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
