"""Each solver on each problem, in a process of its own: gap, seconds of one core, memory.

Problems are minimalloc's hard ones at their capacity, published training graphs, the recorded
steps that no descent solves beside some that one does, and made-up steps of 110,000 and
1,100,000 blocks. Budgets are units of work, so that only the seconds differ from machine to
machine; they are what one process took of the processor, and minimalloc's are taken alike.
Last, searches are cancelled: how long until they are back, and with what.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STALLOC = ROOT / "bin" / "stalloc"
SOLVERS = ("search", "descent", "firstfit", "bestfit", "stalloc")
CAPACITY = 1 << 20
RECORDED = (
    "gpt2_naive",
    "llama_recompute",
    "llama_vpp",
    "megatron_vpp.r0",
    "more/megatron_vpp.r3",
    "more/megatron_vpp2.r0",
)
TIMEOUT = 60  # seconds of minimalloc
MADE_UP = (110_000, 1_100_000)  # blocks at least
BEFORE_CANCEL = 5  # seconds


def run(command: list[str], limit: float | None = None) -> tuple[str, float, float]:
    """Its output, seconds of the processor, and MiB; no output: it was too slow."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        out = ""
        process.communicate()
    return out, *usage()


_before = 0.0


def usage() -> tuple[float, float]:
    """Of the child that ended last. The peak of memory is that of the largest so far."""
    import resource

    global _before
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = now.ru_utime + now.ru_stime
    took, _before = total - _before, total
    return took, now.ru_maxrss / 1024


def isolated(command: list[str], limit: float | None = None) -> tuple[str, float, float]:
    """Run in a process that has no other child, for its peak of memory."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(run(command, limit)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return tuple(json.loads(text))


def solved(path: Path, solver: str, *more: str) -> str:
    out, seconds, memory = isolated(
        [str(STALLOC), "plan", "--json", "--solver", solver, *more, str(path)]
    )
    cells = []
    for line in out.splitlines():
        r = json.loads(line)
        fits = "" if "--capacity" not in more else f" {r['fits']}"
        cells.append(f"{100 * r['gap']:.3f} %{fits}")
    return f"{', '.join(cells) or 'failed'}; {seconds:.2f} s; {memory:.0f} MiB"


def cancelled(path: Path) -> str:
    """How a search that would go on is back when it is interrupted."""
    command = [str(STALLOC), "plan", "--json", "--solver", SOLVERS[0], str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(BEFORE_CANCEL)
    if process.poll() is not None:
        return "was done before"
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    took = time.monotonic() - begin
    return f"{100 * json.loads(out)['gap']:.3f} %; back after {took:.2f} s"


def blocks(path: Path) -> str:
    with open(path) as file:
        return str(sum(1 for _ in file) - 1)


def generated(n: int) -> Path:
    path = ROOT / "build" / f"generated_{n}.csv"
    path.parent.mkdir(exist_ok=True)
    command = ["go", "test", "-count=1", "-run", "TestGenerated", "./plan/solve", "-args"]
    subprocess.run(
        [*command, "-write", str(path), "-blocks", str(n)], cwd=ROOT, check=True, stdout=sys.stderr
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minimalloc", help="its binary, to run beside")
    minimalloc = parser.parse_args().minimalloc

    def row(name: str, count: str, cells: list[str]) -> None:
        print(f"| {name} | {count} | {' | '.join(cells)} |", flush=True)

    names = [*SOLVERS, "exact", *(["minimalloc"] if minimalloc else [])]
    row("problem", "blocks", names)
    row("---", "---", ["---"] * len(names))
    ours = theirs = 0.0
    for path in sorted((ROOT / "plan/solve/testdata/minimalloc").glob("*.csv")):
        cells = []
        for s in (*SOLVERS, "exact"):
            cells.append(solved(path, s, "--capacity", str(CAPACITY)))
            if s == "search":
                ours += float(cells[-1].split("; ")[1][:-2])
        if minimalloc:
            command = [
                minimalloc,
                f"--input={path}",
                f"--capacity={CAPACITY}",
                "--output=/dev/null",
            ]
            _, seconds, memory = isolated(command, TIMEOUT)
            theirs += seconds
            cells.append(f"{seconds:.2f} s; {memory:.0f} MiB")
        row(path.name.split(".")[0], blocks(path), cells)
    row(
        "A to K, in sum",
        "",
        [f"{ours:.1f} s"] + [""] * 5 + ([f"{theirs:.1f} s"] if minimalloc else []),
    )
    for path in sorted((ROOT / "plan/descent/testdata/idealloc").glob("*.csv")):
        cells = [solved(path, s, "--budget", "100000000") for s in SOLVERS]
        row(path.stem, blocks(path), cells)
    for name in RECORDED:
        path = ROOT / "tests/traces" / f"{name}.csv.gz"
        row(name, "", [solved(path, s, "--budget", "300000000") for s in SOLVERS])
    for n, budget, solvers in zip(
        MADE_UP, ("45000000", "60000000"), (SOLVERS, SOLVERS[:2]), strict=True
    ):
        path = generated(n)
        cells = [solved(path, solvers[0], "--budget", budget)]  # the others end by themselves
        row(path.stem, blocks(path), cells + [solved(path, s) for s in solvers[1:]])
    pipeline = ROOT / "tests/traces/megatron_vpp.r0.csv.gz"
    for path in (pipeline, *(ROOT / "build" / f"generated_{n}.csv" for n in MADE_UP)):
        row(f"{path.name.split('.csv')[0]}, cancelled", "", [cancelled(path)])


if __name__ == "__main__":
    main()
