"""Files from anywhere: each, in a process of its own, ends soon, with bounded memory, and is served
or refused in words. The bounds are SECURITY.md's."""

import atexit
import concurrent.futures
import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hostile
import pytest
from programs import DRIVER, ENGINE, PRELUDE, ROOT, SHIM

MOST_MEMORY = 512 << 20
# Of the processor. SECURITY.md says a second or two a megabyte, which the slowest of these files
# has; this only tells what ends from what grows with the square of the file.
MOST_SECONDS = 30.0
BASE, TIMES = 192 << 20, 300  # of memory: what a process takes anyway, and times the file's size

STALLOC = str(ROOT / "bin" / "stalloc")

# Loads a plan and plays what it knows and what it does not.
SERVE = (
    PRELUDE
    + """
import resource
L.stalloc_load_plan.argtypes = [ctypes.c_int, ctypes.c_char_p]
L.stalloc_step.argtypes = L.stalloc_close.argtypes = [ctypes.c_int]
began = resource.getrusage(resource.RUSAGE_THREAD)
status = L.stalloc_load_plan(0, sys.argv[1].encode())
if status != 0:
    sys.exit(error())
sizes = [4 * MIB, 4 * MIB, 512, 2 * MIB, 1 << 40, 4 * MIB, 131072, 3000]
for step in range(4):
    blocks = [(malloc(size), size) for size in sizes * 3]
    for block, size in blocks:
        assert (block is None) == (size == 1 << 40), error()
        if block:
            ctypes.memset(block, 0x5A, min(size, 4096))
    assert malloc(0) is None and malloc((1 << 64) - 300) is None
    spans = sorted((b, b + n) for b, n in blocks if b)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), "blocks overlap"
    for block, _ in blocks:
        if block:
            free(block)
    assert L.stalloc_step(-1) == 0, error()
assert L.stalloc_close(-1) == 0, error()
print("served")
"""
)


def ran(command, folder):
    """Its status, what it said, the processor's seconds and the bytes of memory that it took."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STALLOC_", "FAKECUDA_"))}
    env |= {"SHIM": str(SHIM), "FAKECUDA_ANY_STREAM": "1", "FAKECUDA_CAPACITY": str(1 << 30)}
    env |= {"STALLOC_CONF": f"driver:{DRIVER},engine:{ENGINE}"}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    return process.returncode, text, used.ru_utime + used.ru_stime, used.ru_maxrss << 10


@functools.cache
def small_process():
    """One that starts others: a child's peak begins with what its parent has, here much."""
    spawn = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn)
    atexit.register(pool.shutdown)
    return pool


def ends_well(command, folder):
    """Runs it and holds it to the bounds; its status and what it said."""
    status, text, seconds, memory = small_process().submit(ran, command, folder).result()
    told = f"{seconds:.1f} s, {memory >> 20} MiB, status {status}: {text[:400]}"
    assert status in (0, 1), told
    assert "panic" not in text and "goroutine" not in text, told
    assert seconds <= MOST_SECONDS and memory <= MOST_MEMORY, told
    size = sum(os.path.getsize(f) for f in command[1:] if os.path.isfile(f))
    assert memory <= BASE + TIMES * size, told
    assert status == 0 or len(text) > 20, told
    assert not (Path(folder) / "RAN").exists(), "the file ran something"
    return status, text


def made(folder, name, make):
    file = folder / name.replace(" ", "_")
    file.write_bytes(make())
    return str(file)


@pytest.mark.parametrize("name", hostile.PLANS)
def test_plans(tmp_path, name):
    file = made(tmp_path, f"{name}.plan", hostile.PLANS[name])
    status, said = ends_well([sys.executable, "-c", SERVE, file], tmp_path)
    assert "served" in said if status == 0 else file in said
    reported, said = ends_well([STALLOC, "report", "-o", "page.html", file], tmp_path)
    assert reported == status or "are drawn" in said, said


@pytest.mark.parametrize("name", hostile.RECORDINGS)
def test_recordings(tmp_path, name):
    file = made(tmp_path, name, hostile.RECORDINGS[name])
    for command in (
        ["replay"],
        ["report", "--quick", "-o", "page.html"],
        ["plan", "-o", "run.plan"],
    ):
        ends_well([STALLOC, *command, file], tmp_path)


@pytest.mark.parametrize("name", hostile.LOGS)
def test_logs(tmp_path, name):
    file = made(tmp_path, name, hostile.LOGS[name])
    ends_well([STALLOC, "report", "-o", "page.html", file], tmp_path)
    ends_well([STALLOC, "merge", file, file, "-o", "both.json"], tmp_path)


def test_a_bomb_for_merge(tmp_path):
    (tmp_path / "x.json.gz").write_bytes(hostile.bomb(b'{"traceEvents": [', b" "))
    status, said = ends_well([STALLOC, "merge", "x.json.gz", "x.json.gz", "-o", "y"], tmp_path)
    assert status == 1 and "x.json.gz" in said and os.listdir(tmp_path) == ["x.json.gz"]


def test_no_plan_is_waited_for(tmp_path):
    """A pipe that nobody writes to, a folder, and a file of which most is not there."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with open(tmp_path / "sparse", "wb") as file:
        file.write(b"STALLOCP 8\n")
        file.truncate(1 << 40)
    for name in ("pipe", "folder", "sparse"):
        file = str(tmp_path / name)
        status, said = ends_well([sys.executable, "-c", SERVE, file], tmp_path)
        assert status == 1 and file in said
