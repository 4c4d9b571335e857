"""What was measured, kept run by run, so that a benchmark can be made in pieces.

A ledger is a file of JSON lines. Each line is a training run that has ended: a key that says what
was run, and what came of it. A run that is in the file is not made again; when the time of a piece
is up, the next piece goes on after the last line. A benchmark is then a plain function of what the
ledger answers, whether it had to run for it or not.
"""

import argparse
import datetime
import errno
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXIT_MORE = 75  # exit status: the time is up, and not all is measured
FIRST = 90  # seconds to leave for a run of a kind that nothing is known of


def parser(about):
    """A parser of what every benchmark with a ledger takes."""
    parser = argparse.ArgumentParser(
        description=about.splitlines()[0], epilog="Everything else is passed to the programs."
    )
    parser.add_argument("--json", type=file, required=True, metavar="FILE", help="the ledger")
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="of a piece")
    parser.add_argument("--table", action="store_true", help="run nothing")
    return parser


def file(text):
    """The path of a file to write, for argparse: its folder is made before anything runs."""
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    return path


class OutOfTime(Exception):
    """The piece's time is up: what is missing is left to the next one."""


class Broken(Exception):
    """A run failed, and not for want of memory."""


class Ledger:
    """Runs training scripts, one after the other or side by side, and keeps what came of it.

    `start` is workers.Workers.launch. `budget` is how many seconds a piece has in all: no run
    begins that would hardly end in them.
    """

    def __init__(self, path, budget, start=None, clock=time.monotonic):
        self.path, self._start, self._clock = path, start, clock
        self._end = clock() + budget
        self._lock = threading.Lock()
        self.entries = {}
        self._about = None
        self._took = {}  # the longest run so far, by what sort
        self.places = set()  # what about() says of all runs
        self._devices = set()
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a line that was cut off
            self.entries[key_of(entry["key"])] = entry["result"]
            self.places.add(described(entry))
            self._devices.add(entry.get("device"))
            self._note(entry["key"], entry["result"]["wall_seconds"])

    def cap(self):
        """The limit in GiB that its runs had, where they had one: that of the last; else None."""
        caps = [json.loads(text).get("cap") for text in self.entries]
        return next((cap for cap in reversed(caps) if cap is not None), None)

    def check_device(self, name):
        """Raises SystemExit if it has runs of another device: no table is of two machines."""
        others = self._devices - {name}
        if others:
            raise SystemExit(
                f"{self.path} has runs of {', '.join(sorted(others))}, and this is {name}: "
                "name another file, or delete these lines"
            )

    def has(self, key):
        return key_of(key) in self.entries

    def check(self, key, more=0):
        """Raises OutOfTime if a run like this would hardly end, with `more` seconds before it."""
        if self._end - self._clock() < self._took.get(sort_of(key), FIRST) * 1.15 + more:
            raise OutOfTime

    def left(self):
        """Seconds of the piece."""
        return self._end - self._clock()

    def run(self, key, script, options, allocator, most=600, start=None, **how):
        """The result of a run, measured now if the ledger does not have it.

        `key` says all that tells it from others; key["program"] of what sort it is. Raises
        OutOfTime, and Broken for a failure other than a full device. `how` goes to the launcher,
        `start` if it is another than the ledger's.
        """
        found = self.entries.get(key_of(key))
        if found is not None:
            return found
        self.check(key)
        began = self._clock()
        left = self._end - began
        report = (start or self._start)(script, options, allocator, min(left, most), **how)
        wall = self._clock() - began
        if "failed" in report and "out_of_memory" not in report:
            if wall >= left - 1 and left < most:
                raise OutOfTime  # it was the piece that ended it
            raise Broken(f"{script} {' '.join(options)} under {allocator}: {report['failed']}")
        return self.keep(key, report, wall)

    def keep(self, key, report, wall):
        """Keeps what came of a run; returns it."""
        result = {**measured(report), "wall_seconds": round(wall, 1)}
        with self._lock:
            if self._about is None:
                self._about = about(report)
                self.places.add(described(self._about))
            self.entries[key_of(key)] = result
            self._note(key, wall)
            add(self.path, json.dumps({"key": key, "result": result, **self._about}))
        return result

    def _note(self, key, wall):
        self._took[sort_of(key)] = max(self._took.get(sort_of(key), 0), wall)


def sort_of(key):
    """Runs that take about as long: a program's, larger steps apart."""
    return key["program"], key.get("size") is not None, key.get("steps")


def key_of(key):
    return json.dumps(key, sort_keys=True)


def about(report):
    """What every table must name: machine, commit, day."""
    return {
        "device": report.get("device"),
        "torch": report.get("torch"),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


def append(path, row):
    """Adds a row of a program that has no ledger to a file of JSON lines, if there is one, with
    what every table must name; returns the line."""
    command = shlex.join(["python", *sys.argv])
    of = {"cores": os.cpu_count(), "commit": commit(), "date": datetime.date.today().isoformat()}
    line = json.dumps({**row, **of, "command": command})
    if path:
        add(path, line)
    return line


def add(path, line):
    """Adds a line to a file, which other processes may do at the same time: it is one write."""
    text = line.encode() + b"\n"
    with path.open("ab", buffering=0) as file:
        if file.write(text) < len(text):  # or the next line would be lost as well, and nobody told
            raise OSError(errno.ENOSPC, "a line was cut off", str(path))


def described(entry):
    """The same in words."""
    device, torch = entry.get("device"), entry.get("torch")
    return f"{device}, PyTorch {torch}, commit {entry['commit']}, {entry['date']}"


def commit():
    """The commit that was measured: as COMMIT says, for a copy without git, or the checkout's."""
    if os.environ.get("COMMIT"):
        return os.environ["COMMIT"]
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def measured(report):
    """What is kept of a run. Steady are the steps after the first third."""
    if "out_of_memory" in report:
        return {"oom": True, "step": report["out_of_memory"]["step"]}
    steps, summary = report["steps"], report["summary"]
    third = len(steps) // 3
    before = steps[third - 1]["retries"] if third else 0
    result = {
        "oom": False,
        "step_ms": round(1e3 * summary["median_step_seconds"], 3),
        "steps_ms": [round(1e3 * step["seconds"], 2) for step in steps],
        "host_us": [round(step.get("host_us", 0), 1) for step in steps],
        "per_second": round(summary["median_items_per_second"], 1),
        "retries": steps[-1]["retries"],
        "steady_retries": steps[-1]["retries"] - before,
        "checksum": report.get("checksum"),  # over the bits of all weights
        "finite": report.get("finite"),  # all losses and parameters
        "peak_load": summary["peak_load"],
        "peak_allocated": max(
            part.get("peak_allocated", 0) for part in (report.get("setup", {}), *steps)
        ),
        "peak_reserved": summary["peak_reserved"],
        "driver_ms": [round(1e3 * step["driver_seconds"], 3) for step in steps],
        "driver_calls": [step["driver_calls"] for step in steps],
        "waits": [step["waits"] for step in steps],
        "wait_ms": [round(1e-6 * step["wait_ns"], 3) for step in steps],
        "threads_ms": {
            kind: [round(1e3 * step["thread_seconds"][kind], 2) for step in steps]
            for kind in ("main", "autograd", "others")
        },
    }
    if "device_ms" in report:  # of a step that was profiled
        result["device_ms"] = report["device_ms"]
    if "others" in report:  # the other ranks
        result["others"] = [measured(other) for other in report["others"]]
    return result
