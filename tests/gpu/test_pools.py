"""Private pools under stalloc, beside PyTorch's own: MemPools, and graphs that come and go.

A program of its own runs the cases (programs/pooled.py). All takes at most LIMIT seconds, and each
row is printed as it comes."""

import json
import os
import subprocess
import sys
import time

import gpu
from gpu import MIB

LIMIT = 80
REPORTS = [
    "mempool_retry",
    "mempool_streams",
    "mempool_nested",
    "mempool_comes_back",
    "graph_shapes",
    "captures_and_drops",
    "graph_failed",  # behind it PyTorch itself can capture no more
]


def results(program, cases, allocator, end, must=None):
    """What each case says under an allocator, until a time.

    must: what native's run says has to live."""
    found = {}
    script = gpu.ROOT / "tests" / "gpu" / "programs" / program
    command = [sys.executable, str(script), "--allocator", allocator, *cases]
    with subprocess.Popen(
        ["timeout", "-s", "KILL", str(max(1, end - time.monotonic())), *command],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as job:
        for line in job.stdout:
            if line.startswith('{"case"'):
                row = json.loads(line)
                found[row["case"]] = row
                if row["ok"] and must and must[row["case"]]["ok"]:
                    row["said"]["must"] = must[row["case"]]["said"]["must"]
                show(row, allocator)
    for name in set(cases) - set(found):
        found[name] = {"case": name, "ok": False, "said": f"no result: {job.returncode}", "s": 0.0}
        show(found[name], allocator)
    return found


def show(row, allocator):
    words = row["said"]
    if isinstance(words, dict):
        words = (
            f"reserved {words['reserved'] / MIB:.0f} MiB, {words['in_pools'] / MIB:.0f} in pools: "
            f"waste {waste(words):.1f} % of {words['must'] / MIB:.0f}; {words['ms']:.2f} ms, "
            f"{words['calls']:.1f} calls of the driver; losses {words['losses'][1]!r} to "
            f"{words['losses'][-1]!r}, bits {words['bits']}"
        )
    result = "ok" if row["ok"] else "FAILED"
    print(f"  {row['case']:<32} {allocator:<8} {result:<6} {row['s']:6.1f} s  {words}", flush=True)


def waste(words):
    """Of what must live: the most outside of pools, and in them the most during captures.

    That is the program's, whoever serves it. Native's history tells it best: a block there has one
    address, where ours may lie in a view."""
    return 100 * (words["reserved"] / words["must"] - 1)


def failures(rows):
    return [f"{name}: {row['said']}" for name, row in rows.items() if not row["ok"]]


def check_reports():
    end = time.monotonic() + LIMIT
    results("pooled.py", REPORTS, "native", end)
    wrong = failures(results("pooled.py", REPORTS, "stalloc", end))
    assert not wrong, "; ".join(wrong)


if __name__ == "__main__":
    gpu.run(globals())
