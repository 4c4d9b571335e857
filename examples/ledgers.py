#!/usr/bin/env python3
"""The runs that are missing in docs/data, measured on all GPUs here side by side.

    python examples/ledgers.py --into docs/data                # again until it is done
    python examples/ledgers.py --into docs/data --only frontier-hf largest-24

Each piece below is a benchmark with a ledger, so it goes on after its last run. A GPU that is free
takes the next piece; its processes have an equal share of the cores. Speeds that are measured
beside other programs vary more: with one GPU nothing is beside them. What a piece prints goes to
its NAME.log in --into. The exit status is 0 if all was measured, 75 if the time was up before, 1 if
a piece failed.
"""

import argparse
import concurrent.futures
import os
import queue
import shlex
import subprocess
import sys
import time
from pathlib import Path

import ledger
import machine

HERE = Path(__file__).resolve().parent
LEAST = 60  # seconds: no piece begins with less

# The ledger, and what measures for it.
PIECES = {
    "frontier-hf": (
        "frontier",
        "frontier.py --models hf --sizes 14 16 18 20 24 28 32 40 48 64",
    ),
    "frontier-hf-2.7b": (
        "frontier",
        "frontier.py --models hf-2.7b --sizes 28 32 36 40 48 52 56 64 80",
    ),
    "frontier-megatron": (
        "frontier",
        "frontier.py --models megatron --sizes 18 20 22 24 28 32 36 40 48 64",
    ),
    "frontier-lengths": (
        "frontier",
        "frontier.py --models lengths --sizes 22 24 26 28 30 32 36 40 48",
    ),
    "largest-24": ("largest", "offload_largest.py --limits 24"),
    "largest-40": ("largest", "offload_largest.py --limits 40"),
    "largest-80": ("largest", "offload_largest.py --limits 80"),
    "paper-llama": (
        "artifact-h200",
        "artifact.py --parts rows --turns 4 --rows"
        " llama2-7b/N llama2-7b/R llama2-7b/V llama2-7b/VR llama2-7b/ZR",
    ),
    "together": ("together", "together.py --sets 2"),
    "frontier-1.3b": ("frontier", "frontier.py --models 1.3b"),
    "frontier-2.7b": ("frontier", "frontier.py --models 2.7b"),
}


class Queue:
    """Gives pieces to GPUs; `call` runs a command, as subprocess.run does."""

    def __init__(self, pieces, into, budget, rest=(), call=subprocess.run, clock=time.monotonic):
        self.into, self.rest, self._call, self._clock = into, list(rest), call, clock
        self._end = clock() + budget
        self.statuses = {}  # of the pieces that have run
        self._pieces = queue.SimpleQueue()
        for name in pieces:
            self._pieces.put(name)

    def run(self, gpus):
        """The exit status of all."""
        names = self._pieces.qsize()
        with concurrent.futures.ThreadPoolExecutor(gpus) as pool:
            list(pool.map(lambda gpu: self._work(gpu, gpus), range(gpus)))
        statuses = set(self.statuses.values())
        if statuses - {0, ledger.EXIT_MORE}:
            return 1
        return 0 if len(self.statuses) == names and statuses == {0} else ledger.EXIT_MORE

    def _work(self, gpu, gpus):
        while (left := self._end - self._clock()) >= LEAST:
            try:
                name = self._pieces.get_nowait()
            except queue.Empty:
                return
            status = self._piece(name, gpu, gpus, left)
            self.statuses[name] = status
            print(f"GPU {gpu}: {name}: {said(status)}", flush=True)

    def _piece(self, name, gpu, gpus, left):
        kept, command = PIECES[name]
        script, *options = shlex.split(command)
        command = [sys.executable, str(HERE / script), *options, *self.rest]
        command += ["--json", str(self.into / f"{kept}.jsonl"), "--budget", f"{left - 10:.0f}"]
        mine = sorted(os.sched_getaffinity(0))[gpu::gpus]
        if mine:
            command = ["taskset", "-c", ",".join(map(str, mine)), *command]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": device(gpu)}
        with (self.into / f"{name}.log").open("a") as log:
            return self._call(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment
            ).returncode


def device(gpu):
    """A GPU as CUDA_VISIBLE_DEVICES of a process calls it."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return seen.split(",")[gpu] if seen else str(gpu)


def said(status):
    return {0: "all is measured", ledger.EXIT_MORE: "the time was up"}.get(
        status, f"failed ({status})"
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="of all")
    parser.add_argument("--only", nargs="+", choices=tuple(PIECES), default=list(PIECES))
    args, rest = parser.parse_known_args(argv)
    args.into.mkdir(parents=True, exist_ok=True)
    pieces = Queue(dict.fromkeys(args.only), args.into, args.budget, rest)
    return pieces.run(machine.here("ledgers.py", 8).gpus)


if __name__ == "__main__":
    sys.exit(main())
