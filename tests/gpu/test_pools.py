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
REPORTS = [
    "mempool_retry",
    "mempool_streams",
    "mempool_nested",
    "mempool_comes_back",
    "graph_shapes",
    "captures_and_drops",
    "graph_failed",  # behind it PyTorch itself can capture no more
]
END = time.monotonic() + LIMIT


def results(program, cases, allocator, must=None):
    """What each case says under an allocator. must: what native's run says has to live."""
    found = {}
    script = gpu.ROOT / "tests" / "gpu" / "programs" / program
    command = [sys.executable, str(script), "--allocator", allocator, *cases]
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
            f"losses {words['losses'][1]!r} to {words['losses'][-1]!r}, bits {words['bits']}"
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


def compared(case):
    """What is wrong with ours beside two runs of native; and our row."""
    first = results("captured.py", [case], "native")
    ours, second = (results("captured.py", [case], a, first) for a in ("stalloc", "native"))
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
        for x in (said, *native):
            if abs(x["peak"] - x["counted"]) > x["counted"] / 100:
                wrong.append(f"{name}: {x['peak']} bytes lived, PyTorch counts {x['counted']}")
        if not native[0]["inside"] or native[0]["must"] < 0.99 * native[0]["peak"]:
            wrong.append(f"{name}: what must live is not what lived: {native[0]}")
        if said["reserved"] > 1.01 * max(x["reserved"] for x in native):
            wrong.append(f"{name}: reserves more than native")
        times = said["ms"] / max(x["ms"] for x in native)
        if times > SLOWER:
            wrong.append(f"{name}: a step takes {times:.2f} x native's time")
    return wrong, ours[case]


def check_reports():
    results("pooled.py", REPORTS, "native")
    wrong = failures(results("pooled.py", REPORTS, "stalloc"))
    assert not wrong, "; ".join(wrong)


def check_captured_steps():
    wrong = [text for case in ("whole_step", "layer_by_layer") for text in compared(case)[0]]
    assert not wrong, "; ".join(wrong)


def check_reduce_overhead():
    wrong = []
    for case in ("reduce_overhead", "reduce_overhead_of_three_shapes"):
        found, row = compared(case)
        wrong += found
        if row["ok"] and waste(row["said"]) > WASTE:
            wrong.append(f"{case}: waste of {waste(row['said']):.1f} %")
    assert not wrong, "; ".join(wrong)


if __name__ == "__main__":
    gpu.run(globals())
