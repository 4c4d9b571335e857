"""Running an example in a process of its own, under one allocator."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness


def launch(script, options, allocator, timeout):
    """One training run in its own process: its report, or {"failed": why}."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, str(script), *options]
        command += ["--allocator", allocator, "--json", str(output)]
        try:
            status = subprocess.run(command, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {timeout:g} s"}
        report = json.loads(output.read_text()) if output.exists() else {}
    if status == harness.EXIT_OUT_OF_MEMORY or (status and "out_of_memory" in report):
        report["failed"] = f"out of memory in step {report['out_of_memory']['step']}"
    elif status != 0 and "failed" not in report:
        report["failed"] = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    return report


def launch_all(script, options, allocators, time_left):
    """One run per allocator, one after the other: their reports, by label.

    `time_left()` tells how many seconds the next run may take.
    """
    reports = {}
    for allocator in allocators:
        label, again = allocator, 1
        while label in reports:
            again += 1
            label = f"{allocator} ({again})"
        print(f"== {label}", file=sys.stderr, flush=True)
        seconds = time_left()
        if seconds > 0:
            reports[label] = launch(script, options, allocator, seconds)
        else:
            reports[label] = {"failed": "not run: the time is up"}
    return reports
