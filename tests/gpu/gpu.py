"""What the GPU tests share: a table of checks, and programs in processes of their own.

A test is a script. It calls start() to run under stalloc, defines functions named check_...,
which assert what must hold and may return a few words for the table, and ends with
run(globals()).
"""

import json
import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

MIB, GIB = 1 << 20, 1 << 30


def start(**conf):
    """Enables stalloc; returns torch and stalloc."""
    import stalloc

    if not stalloc.enable(**conf):
        raise SystemExit(f"{sys.argv[0]}: needs a GPU and a PyTorch with CUDA")
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(f"{sys.argv[0]}: PyTorch finds no GPU")
    torch.cuda.init()
    return torch, stalloc


def run(names):
    """Runs the checks in the order of their definition, prints a table, and exits."""
    checks = {n[6:].replace("_", " "): f for n, f in names.items() if n.startswith("check_")}
    failures, width = 0, max(map(len, checks))
    for name, check in checks.items():
        begin = time.perf_counter()
        try:
            result, words = "ok", check() or ""
        except BaseException as error:  # whatever it is, the others still run
            if isinstance(error, KeyboardInterrupt):
                raise
            failures += 1
            result, words = "FAILED", f"{type(error).__name__}: {error}"
            traceback.print_exc()
        seconds = time.perf_counter() - begin
        print(f"{name:<{width}}  {result:<6}  {seconds:6.2f} s  {words}", flush=True)
    sys.exit(1 if failures else 0)


def child(code, **environment):
    """What a program prints as JSON, run in a process of its own under PyTorch's allocator."""
    return python("-c", code, **environment)[0]


def python(*arguments, **environment):
    """What `python arguments...` prints as JSON in its last line, and its standard error."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def pinned_copies():
    """GiB a second that PyTorch's copies from and to pinned memory reach, in words."""
    import torch

    pinned = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    words = []
    for way, to, source in (("out", pinned, there), ("back", there, pinned)):
        times = []
        for _ in range(3):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            to.copy_(source)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        words.append(f"{1 / min(times):.1f} {way}")
    return f"pinned copies: {', '.join(words)}"


def devices():
    import torch

    return torch.cuda.device_count()


def torchrun(program, *arguments, launcher=(), timeout=300, **environment):
    """Runs a program with a rank a GPU: its exit status, and the lines that all ranks printed.

    The status is None if it did not end in `timeout` seconds; all of its processes are ended.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={devices()}", *launcher]
    job = subprocess.Popen(
        [*command, str(ROOT / "tests" / "gpu" / program), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        output, _ = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.terminate()  # it ends its ranks, which have process groups of their own
        try:
            output, _ = job.communicate(timeout=60)
        finally:
            job.kill()
        return None, [*output.splitlines(), f"Error: no end after {timeout} s"]
    return job.returncode, output.splitlines()


def reason(lines):
    """Why a job failed: errors of its ranks, each once, without the launcher's own."""
    errors = [line for line in lines if re.search(r"\w*Error\b|WARN|illegal|Assertion", line)]
    errors = [line for line in errors if "ChildFailedError" not in line] or lines[-20:]
    return "\n".join(dict.fromkeys(errors))[-2000:]


def steps_until_planned(stalloc, step, most=40):
    """Runs steps until one is served from a plan, 99 % of it; returns how many that took."""
    for number in range(1, most + 1):
        before = stalloc.stats()
        step()
        stalloc.step()
        after = stalloc.stats()
        hits, misses = after.hits - before.hits, after.misses - before.misses
        if hits >= 0.99 * (hits + misses) > 0:
            return number
        time.sleep(0.02)  # the planner works beside the steps
    raise AssertionError(f"no step of {most} was served from a plan; {stalloc.stats()}")
