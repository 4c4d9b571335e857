#!/usr/bin/env python3
"""Processes that train an example again and again, each time from nothing.

Half of a short run's time is its start: imports, the CUDA context, kernels that are loaded. A
worker has that once. Each run sets the model up anew; between two of them all tensors are freed and
the allocator gives its cache back, and a worker that has kept memory all the same is replaced by a
fresh process. What an allocator has learned stays, as it would in a run that goes on.

    python examples/workers.py train_hf.py stalloc     # a line of options in, a report out
"""

import contextlib
import gc
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import launch

MOST_LEFT = 8 << 20  # bytes that a worker may keep between runs
START = 120  # seconds


class Workers:
    """Launches runs as launch.launch() does, those of a turn in one process an allocator."""

    def __init__(self):
        self._there = {}  # by script and allocator: the turn and the worker

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _, worker in self._there.values():
            worker.end()
        self._there.clear()

    def launch(self, script, options, allocator, timeout, turn=None, beside=(), **how):
        """One training run: its report, or {"failed": why}. Without a turn in a process of its own.

        `beside` are the allocators whose workers start along with this one, before anything is
        timed.
        """
        if turn is None:
            return launch.launch(script, options, allocator, timeout, **how)
        fresh = [
            self._worker(script, name, turn) for name in {allocator: 0, **dict.fromkeys(beside)}
        ]
        for worker in fresh:
            worker.ready()
        report = fresh[0].run(options, timeout)
        if report.pop("left", MOST_LEFT + 1) > MOST_LEFT:  # it is absent where the process ended
            self._there.pop((script, allocator))[1].end()
        return report

    def _worker(self, script, allocator, turn):
        of, worker = self._there.get((script, allocator), (None, None))
        if of != turn:
            if worker:
                worker.end()
            worker = Worker(script, allocator)
            self._there[script, allocator] = turn, worker
        return worker


class Worker:
    """One such process, seen from without."""

    def __init__(self, script, allocator):
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said"
        self._is_ready = False
        with self._said.open("w") as sink:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(script), allocator],
                env=launch.with_cache(os.environ, self._folder.name),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True,
            )  # fmt: skip

    def ready(self):
        if not self._is_ready:
            self._is_ready = True
            self._answer(START)

    def run(self, options, timeout):
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the answer says
            self._process.stdin.write(json.dumps([str(option) for option in options]) + "\n")
            self._process.stdin.flush()
        return self._answer(timeout)

    def _answer(self, timeout):
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            return {"failed": f"no end after {timeout:g} s"}
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        last = self._said.read_text(errors="replace").strip().splitlines()[-1:]
        return {"failed": ": ".join([f"exit status {self._process.wait()}", *last])}

    def end(self):
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it did not read
            self._process.stdin.close()
        self._process.stdout.close()
        self._folder.cleanup()


def clean():
    """Gives all memory back, and returns how much the allocator has all the same."""
    import torch

    gc.collect()
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    return torch.cuda.memory_reserved()


def main():
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    script, allocator = sys.argv[1:]
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # on more the Trainer splits its batches
    harness.choose_allocator(allocator)
    sys.path.insert(0, str(Path(script).parent))
    program = importlib.import_module(Path(script).stem)
    clean()
    print(json.dumps({}), file=answers, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        for line in sys.stdin:
            status = program.main(
                [*json.loads(line), "--allocator", allocator, "--json", str(output)]
            )
            report = json.loads(output.read_text())
            if status == harness.EXIT_OUT_OF_MEMORY:
                report["failed"] = f"out of memory in step {report['out_of_memory']['step']}"
            print(json.dumps({**report, "left": clean()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
