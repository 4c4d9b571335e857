"""MaOEA-CS beside NSGA-III, RVEA and SMS-EMOA of pymoo, on MaF1 to MaF15 and DTLZ1 to DTLZ4.

Each has the same functions (tests/moea/maf, served by a process of tests/moea/bench), evaluations
and population. What a run ends with is a file below build/moea; runs that have one are not done
again, so this can be interrupted. `bench score` makes the table of them.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # arrays are small, and other runs want the cores

import numpy as np  # noqa: E402
from pymoo.algorithms.moo.nsga3 import NSGA3  # noqa: E402
from pymoo.algorithms.moo.rvea import RVEA  # noqa: E402
from pymoo.algorithms.moo.sms import SMSEMOA  # noqa: E402
from pymoo.core.problem import Problem  # noqa: E402
from pymoo.optimize import minimize  # noqa: E402
from pymoo.util.ref_dirs import get_reference_directions  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "moea-bench"
OUT = ROOT / "build" / "moea"
LAYERS = {5: (6,), 10: (3, 1), 15: (2, 1)}  # of directions: 210, 230 and 135


class Served(Problem):
    """A function that another process evaluates."""

    def __init__(self, name: str, objectives: int) -> None:
        command = [str(BENCH), "serve", "--problem", name, "--objectives", str(objectives)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        variables, self.budget = struct.unpack("<II", self.read(8))
        lower, upper = (np.frombuffer(self.read(8 * variables), "<f8") for _ in range(2))
        super().__init__(n_var=variables, n_obj=objectives, xl=lower, xu=upper)

    def read(self, n: int) -> bytes:
        data = self.process.stdout.read(n)
        if len(data) < n:
            raise RuntimeError("the process that evaluates has ended")
        return data

    def _evaluate(self, x, out, *args, **kwargs) -> None:  # noqa: ANN001
        x = np.ascontiguousarray(x, "<f8")
        self.process.stdin.write(struct.pack("<I", len(x)) + x.tobytes())
        self.process.stdin.flush()
        data = self.read(8 * len(x) * self.n_obj)
        out["F"] = np.frombuffer(data, "<f8").reshape(len(x), self.n_obj)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def directions(objectives: int) -> np.ndarray:
    layers = LAYERS[objectives]
    parts = [
        get_reference_directions("das-dennis", objectives, n_partitions=n, scaling=scale)
        for n, scale in zip(layers, (1.0, 0.5))
    ]
    return np.concatenate(parts)


def algorithm(name: str, objectives: int, generations: int):  # noqa: ANN201
    refs = directions(objectives)
    if name == "nsga3":
        return NSGA3(ref_dirs=refs, pop_size=len(refs))
    if name == "rvea":
        return RVEA(ref_dirs=refs, pop_size=len(refs))
    return SMSEMOA(pop_size=len(refs))


def one(name: str, problem: str, objectives: int, seed: int) -> None:
    path = OUT / name / f"{problem}-{objectives}-{seed}.csv"
    if path.exists():
        return
    begin = time.monotonic()
    served = Served(problem, objectives)
    size = len(directions(objectives))
    generations = served.budget // size
    result = minimize(
        served, algorithm(name, objectives, generations), ("n_gen", generations), seed=seed
    )
    served.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    np.savetxt(part, np.atleast_2d(result.pop.get("F")), delimiter=",", fmt="%.9g")
    part.rename(path)
    print(f"{name} {problem} {objectives} {seed}: {time.monotonic() - begin:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default="nsga3,rvea,sms")
    parser.add_argument("--problems", default="")
    parser.add_argument("--objectives", default="5,10,15")
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    args = parser.parse_args()
    names = [f"MaF{i}" for i in range(1, 16)] + [f"DTLZ{i}" for i in range(1, 5)]
    problems = args.problems.split(",") if args.problems else names
    runs = [
        (name, problem, objectives, seed)
        for objectives in map(int, args.objectives.split(","))
        for seed in range(args.first, args.seeds + 1)
        for problem in problems
        for name in args.algorithms.split(",")
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        for _ in pool.map(one, *zip(*runs)):
            pass


if __name__ == "__main__":
    sys.exit(main())
