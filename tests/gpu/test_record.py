"""stalloc.record on a real PyTorch: its trace agrees with what PyTorch counted in that run."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu
from stalloc.record_poll import POLL_BYTES

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
    own = counted - peak  # the recording has one block, and another now and then
    assert 0 <= own <= 2 * POLL_BYTES, f"peak load {peak} in the trace, PyTorch counted {counted}"
    return f"{len(lines)} lines, peak load {peak / gpu.MIB:.1f} MiB"


def check_dense():
    return agrees("train_llama.py", "--layers", "4", "--width", "512", "--batch", "4")


def check_experts():
    return agrees("train_moe.py", "--preset", "fine", "--layers", "2", "--batch", "4")


def recorded_text(text, *options):
    """The lines of a recorded program's trace, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        script, trace = Path(folder) / "program.py", Path(folder) / "trace.csv.gz"
        script.write_text(text)
        command = [sys.executable, "-m", "stalloc.record", *options, "-o", str(trace), str(script)]
        environment = {**os.environ, "PYTHONPATH": str(gpu.ROOT / "python")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return gzip.decompress(trace.read_bytes()).decode().splitlines(), done.stdout


def check_streamed():
    """A run that outgrows its ring many times, each look in step with the next."""
    lines, _ = recorded_text(LOOP, "--memory", "64MiB")
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


# Work on another stream, a tenth of a second or so, uses a block that is freed at once; then the
# host asks for nothing for a second. It says how long the work went on after the free.
BESIDE = """
import time, torch
side, passed = torch.cuda.Stream(), torch.cuda.Event()
torch.ones(1, device="cuda")
torch.cuda.synchronize()
for _ in range(5):
    block = torch.empty(1 << 20, device="cuda")
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        block.zero_()
    block.record_stream(side)
    del block
    passed.record(side)
    begin = time.perf_counter()
    passed.synchronize()
    print(int((time.perf_counter() - begin) * 1e6))
    time.sleep(1)
    torch.empty(2 << 20, device="cuda")
"""


def late(*options):
    """By how many µs blocks seem to die later than they do, and what was asked for."""
    lines, said = recorded_text(BESIDE, *options)
    asked, requested, ended = {}, {}, {}
    for kind, number, *rest in (line.split(",") for line in lines if line[0] in "arf"):
        {"a": asked, "r": requested, "f": ended}[kind][number] = int(rest[0])
    blocks = [number for number, size in asked.items() if size == 4 << 20]
    waited = map(int, said.split())
    return [ended[b] - requested[b] - w for b, w in zip(blocks, waited)], list(asked.values())


def check_ends_when_events_pass():
    (polled, asked), (plain, asked_plain) = late(), late("--poll", "0")
    assert asked == asked_plain == asked[:1] + [4 << 20, 8 << 20] * 5, asked
    told = f"late by at most {max(polled) / 1e3:.1f} ms, {max(plain) / 1e3:.0f} without polling"
    assert -100_000 < min(polled) and max(polled) < 500_000 and min(plain) > 900_000, told
    return told


CAPTURED = """
import time, torch
x = torch.ones(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):  # which empties the cache before
    y = x * 2
    time.sleep(0.2)
    z = y + 1
graph.replay()
assert z.sum().item() == 3 << 20
"""


def check_a_capture_is_not_disturbed():
    sizes = [line.split(",")[2] for line in recorded_text(CAPTURED)[0] if line.startswith("a,")]
    assert sizes[0] == "4194304" and sizes.count("4194304") >= 3, sizes
    return f"{len(sizes)} requests"


def check_packed():
    return agrees("train_varlen.py", "--packed", "--layers", "4", "--width", "512")


if __name__ == "__main__":
    gpu.run(globals())
