#!/usr/bin/env python3
"""Is an allocator slower? Steps of the same program under each, in turns of seconds.

    python examples/together.py --json together.jsonl                     # again until it is done
    python examples/together.py --json together.jsonl --programs mixtral --sets 3
    python examples/together.py --json together.jsonl --table             # the table so far

turns.py gives each run a process after the other: what a shared machine does in the minutes between
counts as a difference. Here a program's processes, one an allocator, have their first steps and
then wait for each other: each trains some steps, in an order drawn anew in each turn, and only one
trains at a time. Compared are steps of the same number. Between steps each process measures the
host's speed (host.py); only pairs of steps at the same speed count, and the table says how many
these were and what all of them say (together_table.py). At the end a step of each is profiled, for
what runs on the device.

A set is the same in new processes: what a process has by chance for all its life, its cores and
addresses, differs between sets. Runs are kept in --json (ledger.py). The exit status is 0 if all
was measured, 75 if the time was up before, 1 if a run failed.
"""

import json
import random
import select
import sys
import time
from pathlib import Path

import batches
import harness
import ledger
import machine
import names
import together_table
import turns
import workers

HERE = Path(__file__).resolve().parent
FIRST = 8  # steps before the first turn: an allocator learns from them
MOST = 400  # seconds of a set
LATE = "no answer in time"
PROGRAMS = {
    "hf": turns.PROGRAMS["hf"],
    "mixtral": turns.PROGRAMS["mixtral"],
    "deepseek": turns.PROGRAMS["deepseek"],
    "fsdp": turns.Program(
        "FSDP2, Llama 0.55B, beside a fake rank", "train_fsdp.py",
        "--layers 8 --accumulate 4 --ranks 2", 15,
    ),
    "generation": turns.PROGRAMS["generation"],
    "megatron": turns.PROGRAMS["megatron"],
    "micro": turns.Program(
        "Llama-like, micro-batches of one", "train_frontier.py",
        "--shape 12 2048 5504 32000 --batch 1 --recompute 1 --sequences 8 --no-deterministic", 10,
    ),
}  # fmt: skip


class Bench:
    def __init__(self, args, book):
        self.args, self.book = args, book

    def options(self, name):
        """The program's, with another number of steps."""
        args, words = self.args, PROGRAMS[name].options.split()
        if "--steps" in words:
            at = words.index("--steps")
            del words[at : at + 2]
        return [*words, *args.rest, "--steps", str(FIRST + args.turns * args.every)]

    def key(self, name, allocator, number):
        options = " ".join(self.options(name))
        return {"program": name, "options": options, "allocator": allocator, "set": number,
                "every": self.args.every}  # fmt: skip

    def runs(self, name):
        """What there is: by set, all allocators' results."""
        found = []
        for number in range(self.args.sets):
            keys = {a: self.key(name, a, number) for a in self.args.allocators}
            if all(map(self.book.has, keys.values())):
                of = {a: self.book.entries[ledger.key_of(key)] for a, key in keys.items()}
                found.append(of)
        return found

    def set(self, name, number, gpu, share, make):
        """Measures a set, unless it is there."""
        keys = {a: self.key(name, a, number) for a in self.args.allocators}
        if all(map(self.book.has, keys.values())):
            return
        self.book.check(keys[self.args.allocators[0]])
        began, left = time.monotonic(), self.book.left()
        script = HERE / PROGRAMS[name].script
        those = {a: make(script, a, gpu, share) for a in self.args.allocators}
        try:
            whose = Turns(those, min(left, MOST), random.Random(number))
            reports = whose.run(self.options(name), [FIRST, self.args.every])
        finally:
            workers.end_all(list(those.values()))
        for allocator, report in reports.items():
            if report.get("failed") == LATE and left < MOST:
                raise ledger.OutOfTime  # it was the piece that ended it
            if "failed" in report and "out_of_memory" not in report:
                raise ledger.Broken(f"{name} under {allocator}: {report['failed']}")
        for allocator, report in reports.items():
            wall = time.monotonic() - began
            self.book.keep(keys[allocator], report, wall)


class Turns:
    """The processes of a set, by allocator, and whose turn it is."""

    def __init__(self, those, seconds, draw):
        self.those, self.draw = those, draw
        self.end = time.monotonic() + seconds

    def run(self, options, turns):
        """Their reports."""
        for worker in self.those.values():
            worker.ready()
        for worker in self.those.values():
            worker.go(options, {}, turns=turns)
        reports, waiting = {}, {}
        for allocator in self.those:
            self._answer(allocator, reports, waiting)
        while waiting:
            order = list(waiting)
            self.draw.shuffle(order)
            waiting = {}
            for allocator in order:
                self.those[allocator].tell({})
                self._answer(allocator, reports, waiting)
        for allocator, report in reports.items():
            report["device_ms"] = self._profiled(allocator, report)
        return reports

    def _answer(self, allocator, reports, waiting):
        answer = self._listen(allocator)
        if "paused" in answer:
            waiting[allocator] = answer["paused"]
        else:
            reports[allocator] = answer

    def _profiled(self, allocator, report):
        """None where the profiler does not work: nothing else needs it."""
        if "steps" not in report or report["device"] == "CPU" or "failed" in report:
            return None
        self.those[allocator].tell({"profile": len(report["steps"])})
        return self._listen(allocator).get("device_ms")

    def _listen(self, allocator):
        worker = self.those[allocator]
        left = max(0, self.end - time.monotonic())
        if not select.select([worker.answers], [], [], left)[0]:
            return {"failed": LATE}
        return worker.answer()


def run(args, here, make):
    book = ledger.Ledger(args.json, args.budget)
    book.check_device(here.device)
    bench, broken, late = Bench(args, book), {}, []

    def measure_on(gpu):
        try:
            for number in range(args.sets):
                for name in args.programs[gpu :: here.gpus]:
                    try:
                        if name not in broken:
                            bench.set(name, number, gpu, here.gpus, make)
                    except ledger.Broken as error:
                        broken[name] = error
                        print(error, file=sys.stderr, flush=True)
                    else:
                        row = together_table.row(bench, name)
                        print(json.dumps({"program": name, "sets": number + 1, **row}), flush=True)
        except ledger.OutOfTime:
            late.append(gpu)

    batches.side_by_side(measure_on, here.gpus)
    return 1 if broken else ledger.EXIT_MORE if late else 0


def main(argv=None, here=None, make=workers.Worker):
    """`here` and `make` stand for the machine and workers in tests."""
    args = parse_arguments(argv)
    absent = {} if args.table else {name: PROGRAMS[name].missing() for name in args.programs}
    for name, why in absent.items():
        if why:
            print(f"{name}: not run: {why}")
    status, wanted = 0, args.programs
    if not args.table:
        args.programs = [name for name in wanted if not absent[name]]
        status = run(args, here or machine.here("together.py"), make)
    args.programs = wanted
    bench = Bench(args, ledger.Ledger(args.json, 0))
    print(together_table.tables(bench, PROGRAMS))
    if status == ledger.EXIT_MORE:
        print("not all is measured: run this again", file=sys.stderr)
    return status


def parse_arguments(argv=None):
    parser = ledger.parser(__doc__)
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument(
        "--allocators", nargs="+", default=list(names.NAMES), metavar="NAME",
        help="what is compared with all others last",
    )  # fmt: skip
    parser.add_argument("--turns", type=harness.positive, default=7)
    parser.add_argument("--every", type=harness.positive, default=4, help="steps of a turn")
    parser.add_argument("--sets", type=harness.positive, default=1)
    return harness.parse_known(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
