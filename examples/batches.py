"""Runs in batches: their processes start side by side, and then nothing starts beside a run.

A run of two ranks has both GPUs. Those of one rank have a GPU each, so that as many train at once
as there are GPUs.
"""

import concurrent.futures
import dataclasses
import sys
import time
from pathlib import Path

import ledger

START = 60  # seconds that a batch may take to start, until it is known


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its key in the ledger, what is launched, and the numbers of its GPUs."""

    key: dict
    script: Path
    options: list
    allocator: str
    gpus: tuple = (0,)


class Batches:
    """Makes runs of a ledger in processes that `those`, workers.Workers, start ahead."""

    def __init__(self, book, those, gpus):
        self.book, self._those, self._gpus = book, those, gpus
        self.broken = {}  # what failed, and why: no more is run of it
        self._start = START

    def run(self, runs):
        """Those of the runs that are missing, in this order on each GPU. Raises OutOfTime."""
        todo = [run for run in runs if not self.book.has(run.key)]
        todo = [run for run in todo if run.key["program"] not in self.broken]
        if not todo:
            return
        self.book.check(todo[0].key, self._start)
        began = time.monotonic()
        self._those.prepare((run.script, run.allocator, run.gpus) for run in todo)
        self._start = time.monotonic() - began
        self._queue([run for run in todo if len(run.gpus) > 1])
        side_by_side(
            lambda gpu: self._queue([run for run in todo if run.gpus == (gpu,)]), self._gpus
        )

    def _queue(self, runs):
        for run in runs:
            name = run.key["program"]
            if name in self.broken:
                continue
            try:
                self.book.run(run.key, run.script, run.options, run.allocator, gpus=run.gpus)
            except ledger.Broken as error:
                self.broken[name] = str(error)
                print(error, file=sys.stderr, flush=True)


def side_by_side(job, gpus):
    """job(gpu) for each GPU at once, each to its end; then raises what the first one raised."""
    with concurrent.futures.ThreadPoolExecutor(gpus) as pool:
        for done in [pool.submit(job, gpu) for gpu in range(gpus)]:
            done.result()
