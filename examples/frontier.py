#!/usr/bin/env python3
"""The most tokens a second that each allocator reaches on devices of several sizes.

    python examples/frontier.py --json frontier.jsonl                  # again until it is done
    python examples/frontier.py --json frontier.jsonl --models 1.3b --sizes 24 32 40 80
    python examples/frontier.py --json frontier.jsonl --table          # the tables so far

A size is what the allocator may hold (ballast.py says how it is limited). At each size each
allocator trains in the fastest way that fits: micro-batches of 1 to 8 sequences, no layer
recomputed, every second or every one; with stalloc also what leaves for the host, optimizer states,
activations or both (frontier_search.py). Steps have the same tokens in all ways.

Each run is a process of its own, which has started while the last one trained, except beside
micro-batches of one sequence, where that would count. Models share out the GPUs; what is compared
ran on one. Sizes come in groups, the first ones say most. Runs are kept in
--json one by one, and what is there is not run again (ledger.py). The exit status is 0 if all was
measured, 75 if the time was up before, 1 if a run failed.
"""

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import batches
import frontier_table
import harness
import ledger
import machine
import workers
from frontier_search import TURNS, Search

SCRIPT = Path(__file__).resolve().parent / "train_frontier.py"
SIZES = ((24, 32, 40, 80), (28, 36, 48, 64), (22, 26, 30, 34, 44, 52, 56, 60, 68, 72))
# Of the table, in the order in which they are measured.
COLUMNS = ("native", "expandable", "stalloc", "offload", "async", "gmlake")
AHEAD = 2  # processes that start while another trains


@dataclasses.dataclass(frozen=True)
class Model:
    """`weights` in billions; with gradients and AdamW's states each takes 16 bytes."""

    title: str
    options: str
    weights: float
    tokens: int = 16 * 2048  # of a step


MODELS = {
    "1.3b": Model("Llama-like, 1.34 B", "", 1.345),
    "2.7b": Model("Llama-like, 2.70 B", "--shape 32 2560 6912 32000", 2.702),
    "lengths": Model("Llama-like, 1.34 B, lengths that vary", "--lengths", 1.345),
    "0.5b": Model("Llama-like, 0.54 B", "--shape 8 2048 5504 32000", 0.536),
}


class Starter:
    """Launches runs on a GPU in processes of their own, the next ones ahead."""

    def __init__(self, gpu, share, make=workers.Workers):
        self.gpus, self.share, self._make = (gpu,), share, make
        self._allocator = self._those = None

    def of(self, allocator):
        """Workers of an allocator; those of the one before end."""
        if self._allocator != allocator:
            self.end()
            self._allocator, self._those = allocator, self._make(self.share)
        return self._those

    def launch(self, script, options, allocator, timeout, quiet):
        those = self.of(allocator)
        # cudaMallocAsync's ballast is what is free when it begins: nothing may start beside it.
        most = 0 if allocator == "async" else 1 if quiet else 1 + AHEAD
        for _ in range(most):
            those.ahead(script, allocator, self.gpus, most)
        return those.launch(script, options, allocator, timeout, gpus=self.gpus)

    def end(self):
        if self._those is not None:
            self._those.__exit__()
        self._allocator = self._those = None


class Bench:
    """One model: what it asks of the ledger."""

    def __init__(self, name, args, book, starter=None):
        self.name, self.model, self.args, self.book = name, MODELS[name], args, book
        self.starter = starter

    def key(self, allocator, way, cap, turn=0):
        options = " ".join([*self.model.options.split(), *way.options(), *self.args.rest])
        key = {"program": self.name, "options": options, "allocator": allocator, "cap": cap,
               "steps": way.steps}  # fmt: skip
        return {**key, "turn": turn} if turn else key

    def run(self, allocator, way, cap, turn=0):
        """The result of a run with at most `cap` GiB; None: no limit."""
        key = self.key(allocator, way, cap, turn)
        options = [*key["options"].split(), "--steps", str(way.steps), "--no-deterministic"]
        options += ["--memory-cap", str(cap)] if cap is not None else []
        start = self.starter.launch if self.starter else None
        quiet = {"quiet": way.batch == 1}
        return self.book.run(key, SCRIPT, options, allocator, most=90, start=start, **quiet)

    def known(self, allocator, way):
        """The runs of a way that there are, by their limit in GiB: one or more."""
        found = {}
        for cap in {key["cap"] for key in self.keys()}:
            keys = [self.key(allocator, way, cap, turn) for turn in range(TURNS)]
            if runs := [self.book.entries[ledger.key_of(k)] for k in keys if self.book.has(k)]:
                found[cap] = runs
        return found

    def all_runs(self):
        return [self.book.entries[ledger.key_of(key)] for key in self.keys()]

    def keys(self):
        """Of all runs of the model."""
        every = map(json.loads, list(self.book.entries))
        return [key for key in every if key["program"] == self.name]


def measure(bench, sizes, columns, broken):
    """The columns at these sizes; prints a row for each. One in which a run fails goes no further,
    and is put into `broken`."""
    search = Search(bench)
    for column, size in itertools.product(columns, sizes):
        row = {"model": bench.name, "GiB": size, "column": column}
        if (bench.name, column) in broken:
            continue
        try:
            best = search.best(frontier_table.ALLOCATORS[column], size, column == "offload")
        except ledger.Broken as error:
            broken.add((bench.name, column))
            row |= {"failed": str(error)}
        else:
            if best is not None:
                row |= {"tokens/s": round(best.rate), "way": best.way.words()}
        print(json.dumps(row), flush=True)


def run(args, here, make=workers.Workers):
    book = ledger.Ledger(args.json, args.budget)
    book.check_device(here.device)
    most = int(here.memory) - machine.SPARE
    broken, late = set(), []

    def measure_on(gpu):
        starter = Starter(gpu, here.gpus, make)
        mine = [Bench(name, args, book, starter) for name in args.models[gpu :: here.gpus]]
        try:
            for sizes, bench in itertools.product(groups(args.sizes, most), mine):
                measure(bench, sizes, args.columns, broken)
        except ledger.OutOfTime:
            late.append(gpu)
        finally:
            starter.end()

    batches.side_by_side(measure_on, here.gpus)
    return 1 if broken else ledger.EXIT_MORE if late else 0


def groups(sizes, most):
    """The sizes in their order of importance, none beyond what the device has."""
    chosen = [[size for size in group if not sizes or size in sizes] for group in SIZES]
    chosen.append([size for size in sizes or () if not any(size in group for group in SIZES)])
    return [sorted({min(size, most) for size in group}) for group in chosen if group]


def main(argv=None, here=None, make=workers.Workers):
    """`here` and `make` stand for the machine and workers in tests."""
    args = parse_arguments(argv)
    status = 0 if args.table else run(args, here or machine.here("frontier.py", 4), make)
    book = ledger.Ledger(args.json, 0)
    print(frontier_table.tables([Bench(name, args, book) for name in args.models]))
    if status == ledger.EXIT_MORE:
        print("not all is measured: run this again", file=sys.stderr)
    return status


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument(
        "--models", nargs="+", choices=tuple(MODELS), default=["1.3b", "2.7b", "lengths"]
    )
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--sizes", nargs="+", type=int, metavar="GIB", help="only these")
    parser.add_argument(
        "--batches", nargs="+", type=int, default=[1, 2, 4, 8], help="micro-batches"
    )
    parser.add_argument("--tries", type=int, default=4, help="ways to offload, at a size")
    return harness.parse_known(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
