"""Processes that start before they are needed, each to train an example once or again and again.

Half of a short run's time is its start: imports, the CUDA context. Workers have that behind them
when they are told what to train, and hold nothing on their GPU but the context. Two uses:

    prepare(), launch()     processes of the next runs start side by side, before anything is
                            measured; each trains once, from nothing, and ends
    launch(turn=)           those of a turn share a process an allocator, which sets the model up
                            anew for each. Between two runs all tensors are freed and the allocator
                            gives its cache back; a worker that has kept memory all the same is
                            replaced. What an allocator has learned stays

Each worker sees one GPU, and where several are used at once it is kept to its share of the cores.
A job of several ranks is a worker for each. worker.py is what runs in each.
"""

import contextlib
import json
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INSIDE = Path(__file__).resolve().parent / "worker.py"
MOST_LEFT = 8 << 20  # bytes that a worker may keep between runs
START = 300  # seconds: many start at once, and the first compile the adapter


class Workers:
    """Launches runs as launch.launch() does, in workers. `share` is how many GPUs train at once."""

    def __init__(self, share=1):
        self._share = share
        self._there = {}  # by script, allocator and GPU: the turn and its worker
        self._waiting = {}  # by script, allocator and GPUs: for each run to come, its workers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_all([worker for _, worker in self._there.values()])
        end_all([w for runs in self._waiting.values() for run in runs for w in run])
        self._there.clear()
        self._waiting.clear()

    def prepare(self, runs):
        """Starts the processes of runs to come, (script, allocator, GPUs) each, side by side."""
        fresh = []
        for script, allocator, gpus in runs:
            ranks = self._start(script, allocator, gpus)
            self._waiting.setdefault((script, allocator, gpus), []).append(ranks)
            fresh += ranks
        for worker in fresh:
            worker.ready()

    def launch(
        self, script, options, allocator, timeout, turn=None, beside=(), gpus=(0,), profile=False
    ):
        """One training run: its report, or {"failed": why}; with several GPUs, one rank on each.

        Without a turn in processes of its own: prepared ones, if there are any. With `profile` a
        step more is profiled there: "device_ms". `beside` are the allocators whose workers start
        along with that of the turn. What a run says appears only as the last line of it in the
        reason.
        """
        end = time.monotonic() + timeout
        if turn is None:
            waiting = self._waiting.get((script, allocator, gpus))
            ranks = waiting.pop(0) if waiting else self._start(script, allocator, gpus)
            try:
                report = train(ranks, options, timeout, end, profile)
                return {**report, **profiled(ranks[0], report, end)} if profile else report
            finally:
                end_all(ranks)
        names = {allocator: 0, **dict.fromkeys(beside)}
        fresh = [self._of_turn(script, name, turn, gpus[0]) for name in names]
        for worker in fresh:
            worker.ready()
        report = train(fresh[:1], options, timeout, end)
        if report.pop("left", MOST_LEFT + 1) > MOST_LEFT:  # it is absent where the process ended
            self._there.pop((script, allocator, gpus[0]))[1].end()
        return report

    def _start(self, script, allocator, gpus):
        return [Worker(script, allocator, gpu, self._share) for gpu in gpus]

    def _of_turn(self, script, allocator, turn, gpu):
        of, worker = self._there.get((script, allocator, gpu), (None, None))
        if of != turn:
            if worker:
                worker.end()
            (worker,) = self._start(script, allocator, (gpu,))
            self._there[script, allocator, gpu] = turn, worker
        return worker


class Worker:
    """One such process, seen from without."""

    def __init__(self, script, allocator, gpu=0, share=1):
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said"
        self._is_ready = False
        with self._said.open("w") as sink:
            self._process = subprocess.Popen(
                [sys.executable, str(INSIDE), str(script), allocator, str(gpu), str(share)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True,
            )  # fmt: skip
        self.answers = self._process.stdout

    def ready(self):
        if not self._is_ready:
            self._is_ready = True
            if not select.select([self.answers], [], [], START)[0]:
                self.kill()  # a late answer must not be taken for a report
            self.answer()

    def go(self, options, environment, **more):
        self.ready()
        line = {"options": [str(option) for option in options], "environment": environment}
        self.tell({**line, **more})

    def tell(self, line):
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the answer says
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def answer(self):
        line = self.answers.readline()
        if line:
            return json.loads(line)
        last = self._said.read_text(errors="replace").strip().splitlines()[-1:]
        return {"failed": ": ".join([f"exit status {self._process.wait()}", *last])}

    def kill(self):
        self._process.kill()

    def end(self):
        self.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it did not read
            self._process.stdin.close()
        self.answers.close()
        self._folder.cleanup()


def end_all(workers):
    for worker in workers:  # their GPUs' memory is given back side by side
        worker.kill()
    for worker in workers:
        worker.end()


def profiled(worker, report, end):
    """What a step more runs on the device; None where the profiler does not work."""
    if "failed" in report:
        return {}
    worker.tell({"profile": len(report["steps"])})
    there = select.select([worker.answers], [], [], max(0, end - time.monotonic()))[0]
    return {"device_ms": worker.answer().get("device_ms") if there else None}


def train(ranks, options, timeout, end, profile=False):
    """One run by these workers, until `end`: the first rank's report, with those of the others."""
    for worker in ranks:
        worker.ready()
    if len(ranks) == 1:
        # A program that has turns keeps its model. It has none before its end.
        ranks[0].go(options, {}, **({"turns": [1 << 30, 1]} if profile else {}))
        return reports_of(ranks, timeout, end)
    with tempfile.TemporaryDirectory() as folder:  # a port might be another's by the time
        job = {"RENDEZVOUS": f"file://{folder}/store", "WORLD_SIZE": str(len(ranks))}
        for rank, worker in enumerate(ranks):
            worker.go(options, {**job, "RANK": str(rank)})
        return reports_of(ranks, timeout, end)


def reports_of(ranks, timeout, end):
    """The first failure is the run's: other ranks would wait for that one."""
    reports = {}
    while len(reports) < len(ranks):
        waiting = {worker.answers: worker for worker in ranks if worker not in reports}
        there = select.select(list(waiting), [], [], max(0, end - time.monotonic()))[0]
        if not there:
            return {"failed": f"no end after {timeout:g} s"}
        for worker in (waiting[answers] for answers in there):
            reports[worker] = worker.answer()
            if "failed" in reports[worker]:
                return reports[worker]
    first, *others = (reports[worker] for worker in ranks)
    return {**first, "others": others} if others else first
