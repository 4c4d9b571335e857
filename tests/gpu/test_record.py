"""stalloc.record on a real PyTorch: its trace agrees with what PyTorch counted in that run."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu

STEPS = 4


def recorded(*options):
    """The lines of a recorded example's trace, and the example's own report."""
    with tempfile.TemporaryDirectory() as folder:
        trace, report = Path(folder) / "trace.csv.gz", Path(folder) / "report.json"
        script, *rest = options
        command = [sys.executable, "-m", "stalloc.record", "-o", str(trace)]
        command += [str(gpu.ROOT / "examples" / script), *rest, "--steps", str(STEPS)]
        command += ["--json", str(report)]
        environment = {**os.environ, "PYTHONPATH": str(gpu.ROOT / "python")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        lines = gzip.decompress(trace.read_bytes()).decode().splitlines()
        return lines, json.loads(report.read_text())


def peak_of(lines):
    """The largest sum of live sizes, as asked for."""
    live, load, peak = {}, 0, 0
    for line in lines:
        kind, *fields = line.split(",")
        if kind == "a":
            live[fields[0]] = int(fields[1])
            load += int(fields[1])
            peak = max(peak, load)
        elif kind == "f":
            load -= live.pop(fields[0])
    return peak


def agrees(*options):
    lines, report = recorded(*options)
    marks = [line[2:] for line in lines if line.startswith("#")][1:]
    assert marks == ["setup", *(f"step {n}" for n in range(STEPS)), "end"], marks
    peak, counted = peak_of(lines), report["summary"]["peak_load"]
    assert peak == counted, f"peak load {peak} in the trace, PyTorch counted {counted}"
    return f"{len(lines)} lines, peak load {peak / gpu.MIB:.1f} MiB"


def check_dense():
    return agrees("train_llama.py", "--layers", "4", "--width", "512", "--batch", "4")


def check_experts():
    return agrees("train_moe.py", "--preset", "fine", "--layers", "2", "--batch", "4")


def check_streamed():
    """A run that outgrows its ring many times, each look in step with the next."""
    with tempfile.TemporaryDirectory() as folder:
        script, trace = Path(folder) / "loop.py", Path(folder) / "trace.csv.gz"
        script.write_text(LOOP)
        command = [sys.executable, "-m", "stalloc.record", "--memory", "64MiB", "-o", str(trace)]
        environment = {**os.environ, "PYTHONPATH": str(gpu.ROOT / "python")}
        done = subprocess.run(
            [*command, str(script)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = gzip.decompress(trace.read_bytes()).decode().splitlines()
    marks = [line[2:] for line in lines if line.startswith("#")][1:]
    assert marks == [*(f"step {n}" for n in range(1000)), "end"], marks[:5]
    sizes = [line.split(",")[2] for line in lines if line.startswith("a,")]
    assert sizes == [str(4 * (n + 1)) for n in range(100)] * 1000, len(sizes)
    assert sum(line.startswith("f,") for line in lines) == 100_000
    return f"{len(lines)} lines through a ring of {(64 << 20) // 1000}"


LOOP = """
import stalloc, torch
for step in range(1000):
    blocks = [torch.empty(n + 1, device="cuda") for n in range(100)]
    del blocks
    stalloc.step()
"""


def check_packed():
    return agrees("train_varlen.py", "--packed", "--layers", "4", "--width", "512")


if __name__ == "__main__":
    gpu.run(globals())
