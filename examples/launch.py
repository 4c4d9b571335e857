"""Running an example in a process of its own, under one allocator."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

CONF = "STALLOC_CONF"


def launch(script, options, allocator, timeout, cache=None):
    """One training run in its own process: its report, or {"failed": why}.

    `cache` is the folder where stalloc keeps its plans in this run, unless the environment
    names one: without saved plans from other runs, a comparison starts alike every time.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, str(script), *options]
        command += ["--allocator", allocator, "--json", str(output)]
        environment = with_cache(os.environ, cache or folder)
        try:
            status = subprocess.run(command, timeout=timeout, env=environment).returncode
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {timeout:g} s"}
        report = json.loads(output.read_text()) if output.exists() else {}
    if status == harness.EXIT_OUT_OF_MEMORY or (status and "out_of_memory" in report):
        report["failed"] = f"out of memory in step {report['out_of_memory']['step']}"
    elif status != 0:
        report["failed"] = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    return report


def with_cache(environment, folder):
    """The environment with stalloc's plans kept in `folder`, if it does not say where."""
    conf = environment.get(CONF, "")
    if any(item.strip().startswith("cache:") for item in conf.split(",")):
        return dict(environment)
    return {**environment, CONF: f"{conf},cache:{folder}".lstrip(",")}


def launch_all(script, options, allocators, time_left):
    """One run per allocator, one after the other: their reports, by label.

    `time_left()` tells how many seconds the next run may take. An allocator that is asked for
    twice finds what its first run saved; others do not.
    """
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        for allocator in allocators:
            label, again = allocator, 1
            while label in reports:
                again += 1
                label = f"{allocator} ({again})"
            print(f"== {label}", file=sys.stderr, flush=True)
            cache = Path(folder) / re.sub(r"\W", "_", allocator)
            cache.mkdir(exist_ok=True)
            seconds = time_left()
            if seconds > 0:
                reports[label] = launch(script, options, allocator, seconds, cache)
            else:
                reports[label] = {"failed": "not run: the time is up"}
    return reports
