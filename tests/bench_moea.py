"""MaOEA-CS beside NSGA-III, RVEA and SMS-EMOA of pymoo, on MaF1 to MaF15 and DTLZ1 to DTLZ4.

Each has the same functions (tests/moea/maf, served by a process of tests/moea/bench), evaluations
and population. A run that has ended is a line of JSON; runs that have one are not done again, so
this can be interrupted. All functions come first with few seeds, then with more. `bench table`
prints the medians.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # arrays are small, and other runs want the cores
os.environ.setdefault("GOMAXPROCS", "1")

import numpy as np  # noqa: E402
from moea.sampled import sms_emoa  # noqa: E402
from pymoo.algorithms.moo.nsga3 import NSGA3  # noqa: E402
from pymoo.algorithms.moo.rvea import RVEA  # noqa: E402
from pymoo.core.problem import Problem  # noqa: E402
from pymoo.optimize import minimize  # noqa: E402
from pymoo.util.ref_dirs import get_reference_directions  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PROBLEMS = [f"MaF{i}" for i in range(1, 16)] + [f"DTLZ{i}" for i in range(1, 5)]
LARGE = ("MaF14", "MaF15")  # a million evaluations and more
LAYERS = {5: (6,), 10: (3, 1), 15: (2, 1)}  # of directions: 210, 230 and 135
OURS = "maoea-cs"


def bench(command: str, problem: str, objectives: int, *more: str) -> list[str]:
    return [BENCH, command, "--problem", problem, "--objectives", str(objectives), *more]


class Served(Problem):
    """A function that another process evaluates."""

    def __init__(self, name: str, objectives: int) -> None:
        command = bench("serve", name, objectives)
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


def algorithm(name: str, objectives: int):  # noqa: ANN201
    refs = directions(objectives)
    if name == "nsga3":
        return NSGA3(ref_dirs=refs, pop_size=len(refs))
    if name == "rvea":
        return RVEA(ref_dirs=refs, pop_size=len(refs))
    return sms_emoa(len(refs))


def search(name: str, problem: str, objectives: int, seed: int) -> str:
    """What a run ends with: a line of objectives for each member of its population."""
    if name == OURS:
        command = bench("run", problem, objectives, "--seed", str(seed))
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    served = Served(problem, objectives)
    generations = served.budget // len(directions(objectives))
    result = minimize(served, algorithm(name, objectives), ("n_gen", generations), seed=seed)
    served.close()
    members = np.atleast_2d(result.pop.get("F"))
    return "\n".join(",".join(f"{v:.9g}" for v in f) for f in members)


def one(task: tuple[str, str, int, int]) -> dict:
    name, problem, objectives, seed = task
    begin = time.monotonic()
    members = search(*task)
    seconds = time.monotonic() - begin
    scored = subprocess.run(
        bench("score", problem, objectives),
        input=members, stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    return {
        "problem": problem,
        "objectives": objectives,
        "algorithm": name,
        "seed": seed,
        **json.loads(scored.stdout),
        "seconds": round(seconds, 1),
    }


def ordered(args: argparse.Namespace) -> list[tuple[str, str, int, int]]:
    """Tasks in the order of their worth, so that what is there at any time is a whole table."""

    def block(objectives: int, first: int, last: int, names: str, problems: list[str]) -> list:
        return [
            (name, problem, objectives, seed)
            for seed in range(first, last + 1)
            for problem in sorted(problems, key=lambda p: p not in LARGE)  # the longest first
            for name in names.split(",")
        ]

    usual = [p for p in PROBLEMS if p not in LARGE]
    peers = "nsga3,rvea,sms-emoa"
    tasks = block(5, 1, 1, f"{peers},{OURS}", PROBLEMS)
    tasks += block(5, 2, 11, f"nsga3,{OURS}", PROBLEMS[:15])
    for objectives in (10, 15):
        tasks += block(objectives, 1, 3, f"{peers},{OURS}", usual)
    tasks += block(5, 2, args.seeds, f"{peers},{OURS}", PROBLEMS)
    for objectives in (10, 15):
        tasks += block(objectives, 1, args.seeds, f"{peers},{OURS}", usual)
    tasks += [t for m in (10, 15) for t in block(m, 1, args.seeds, f"{OURS},{peers}", [*LARGE])]
    chosen = [
        (name, problem, m, seed)
        for name, problem, m, seed in dict.fromkeys(tasks)
        if name in args.algorithms.split(",") and m in map(int, args.objectives.split(","))
        if problem in args.problems.split(",") and seed <= args.seeds
    ]
    return chosen


def done(path: Path) -> set[tuple[str, str, int, int]]:
    if not path.exists():
        return set()
    runs = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return {(r["algorithm"], r["problem"], r["objectives"], r["seed"]) for r in runs}


def main() -> None:
    global BENCH  # noqa: PLW0603 - processes of the pool are forks
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default=f"{OURS},nsga3,rvea,sms-emoa")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--objectives", default="5,10,15")
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--limit", type=float, default=1e6, help="seconds to end after")
    parser.add_argument("--bench", default=str(ROOT / "build" / "moea-bench"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "data" / "moea.jsonl")
    args = parser.parse_args()
    BENCH = args.bench
    have = done(args.out)
    tasks = [task for task in ordered(args) if task not in have]
    print(f"{len(have)} runs are there, {len(tasks)} are to do", flush=True)
    end = time.monotonic() + args.limit
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool, args.out.open("a") as out:
        runs = pool.imap_unordered(one, tasks)
        for n in range(1, len(tasks) + 1):
            try:
                run = runs.next(timeout=max(0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("out of time", flush=True)
                break
            out.write(json.dumps(run) + "\n")
            out.flush()
            if n % 20 == 0:
                print(f"{n} of {len(tasks)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
