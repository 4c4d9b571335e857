"""Private pools under stalloc, beside PyTorch's own allocator: MemPools, graphs, graph trees.

Programs of their own run the cases (programs/pooled.py, programs/captured.py). Training in graphs
runs twice under PyTorch's allocator: its two runs must have the same bits, or nothing can be said
about ours. All takes at most LIMIT seconds, and each row is printed as it comes."""

import json
import os
import subprocess
import sys
import time

import gpu
from gpu import MIB

LIMIT = 195
SLOWER = 1.05  # the steps are short, and the machine is not alone
WASTE = 5  # %, of reduce-overhead
CASES = {
    "pooled.py": [
        "mempool_retry",
        "mempool_streams",
        "mempool_nested",
        "mempool_comes_back",
        "graph_shapes",
        "captures_and_drops",
        "graph_failed",  # behind it PyTorch itself can capture no more
    ],
    "captured.py": ["whole_step", "layer_by_layer"],
    "captured.py again": ["reduce_overhead", "reduce_overhead_of_three_shapes"],
}
END = time.monotonic() + LIMIT


def results(program, allocator):
    """What each case says under an allocator: the last line of JSON that names it."""
    found = {}
    script = gpu.ROOT / "tests" / "gpu" / "programs" / program.split()[0]
    command = [sys.executable, str(script), "--allocator", allocator, *CASES[program]]
    with subprocess.Popen(
        ["timeout", "-s", "KILL", str(max(1, END - time.monotonic())), *command],
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
                show(row, allocator)
    for name in set(CASES[program]) - set(found):
        found[name] = {"case": name, "ok": False, "said": f"no result: {job.returncode}", "s": 0.0}
        show(found[name], allocator)
    return found


def show(row, allocator):
    words = row["said"]
    if isinstance(words, dict):
        inside, outside = words["inside"] / MIB, (words["must"] - words["inside"]) / MIB
        words = (
            f"reserved {words['reserved'] / MIB:.0f} MiB, {words['in_pools'] / MIB:.0f} in pools: "
            f"waste {waste(words):.1f} % above {outside:.0f} outside and {inside:.0f} in pools; "
            f"{words['ms']:.2f} ms a step, "
            f"losses {words['losses'][1]!r} to {words['losses'][-1]!r}, bits {words['bits']}"
        )
    result = "ok" if row["ok"] else "FAILED"
    print(f"  {row['case']:<32} {allocator:<8} {result:<6} {row['s']:6.1f} s  {words}", flush=True)


def waste(words):
    """Of what must live: the most outside of pools, and in each pool the most during captures."""
    return 100 * (words["reserved"] / words["must"] - 1)


def failures(rows):
    return [f"{name}: {row['said']}" for name, row in rows.items() if not row["ok"]]


def compared(program):
    """What is wrong with ours beside two runs of native; and our rows."""
    first, ours, second = (results(program, a) for a in ("native", "stalloc", "native"))
    wrong = failures(ours)
    for name, row in ours.items():
        others = [first[name], second[name]]
        if not row["ok"] or not all(other["ok"] for other in others):
            continue
        said, native = row["said"], [other["said"] for other in others]
        bits = [(x["losses"], x["bits"]) for x in native]
        if bits[0] != bits[1]:
            wrong.append(f"{name}: native's own runs differ, so the program says nothing of ours")
        elif (said["losses"], said["bits"]) != bits[0]:
            wrong.append(f"{name}: other bits than both of native's runs")
        for x in (said, *native):  # or else `must` is not to be trusted
            if not x["inside"] or abs(x["peak"] - x["counted"]) > x["counted"] / 100:
                wrong.append(f"{name}: {x['peak']} bytes lived, PyTorch counts {x['counted']}")
        if said["reserved"] > 1.01 * max(x["reserved"] for x in native):
            wrong.append(f"{name}: reserves more than native")
        times = said["ms"] / max(x["ms"] for x in native)
        if times > SLOWER:
            wrong.append(f"{name}: a step takes {times:.2f} x native's time")
    return wrong, ours


def check_reports():
    results("pooled.py", "native")
    wrong = failures(results("pooled.py", "stalloc"))
    assert not wrong, "; ".join(wrong)


def check_captured_steps():
    wrong, _ = compared("captured.py")
    assert not wrong, "; ".join(wrong)


def check_reduce_overhead():
    wrong, ours = compared("captured.py again")
    for name, row in ours.items():
        if row["ok"] and waste(row["said"]) > WASTE:
            wrong.append(f"{name}: waste of {waste(row['said']):.1f} %")
    assert not wrong, "; ".join(wrong)


if __name__ == "__main__":
    gpu.run(globals())
