"""The program that measures the driver's prices, against the simulated driver."""

import os
import subprocess
import sys

from programs import DRIVER, ROOT

SCRIPT = ROOT / "tests" / "gpu" / "test_handle_costs.py"

# Runs the script, then says what it has left behind.
RUN = """
import ctypes, runpy, sys
status, sys.argv = 0, sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    status = end.code
live = ctypes.CDLL("libcuda.so.1").fakecuda_live
live.restype = ctypes.c_long
print("left:", *(live(kind) for kind in (b"handles", b"mappings", b"reservations")))
sys.exit(status)
"""


def run(*options, **environment):
    paths = {"LD_LIBRARY_PATH": str(DRIVER.parent), "PYTHONPATH": str(SCRIPT.parent)}
    return subprocess.run(
        [sys.executable, "-c", RUN, str(SCRIPT), *options],
        env={**os.environ, "FAKECUDA_POISON": "0", **paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_row_for_each_size_and_an_answer_to_each_question():
    done = run("--mib", "64")
    assert done.returncode == 0, done.stdout + done.stderr
    for size in (2, 4, 8, 16, 32):
        row = next(line for line in done.stdout.splitlines() if line.startswith(f"| {size} MiB |"))
        assert len(row.split("|")) == 12
    assert "fake CUDA device 0, driver unknown (CUDA 13.0), 20" in done.stdout
    assert "written at one address, read at the other" in done.stdout
    assert done.stdout.count("refused, error 1 (CUDA_ERROR_INVALID_VALUE)") == 2
    assert done.stdout.endswith("left: 0 0 0\n")


def test_a_call_that_fails_is_named_and_nothing_stays():
    for call in ("cuMemCreate", "cuMemMap", "cuMemSetAccess"):
        done = run("--mib", "64", FAKECUDA_FAIL=f"{call}:7:2")
        assert done.returncode == 1
        assert f"RuntimeError: {call}: error 2 (CUDA_ERROR_OUT_OF_MEMORY)" in done.stdout
        assert done.stdout.endswith("left: 0 0 0\n")


def test_options_that_make_no_sense():
    done = run("--mib", "48")
    assert done.returncode == 2 and "want a power of two" in done.stderr
