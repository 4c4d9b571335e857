"""Runs small Python programs on the native libraries over the simulated driver.

Each test is a process of its own: how a process starts, forks, is interrupted and ends is what
is tested here. The libraries are those that `make build` made.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LIB = ROOT / "python" / "stalloc" / "lib"
SHIM = LIB / "libstalloc.so"
ENGINE = LIB / "libstalloc_engine.so"
DRIVER = ROOT / "build" / "fakecuda" / "libcuda.so.1"

# What every program begins with.
PRELUDE = """
import ctypes, os, signal, sys, threading, time
L = ctypes.CDLL(os.environ["SHIM"])
L.stalloc_malloc.restype = ctypes.c_void_p
L.stalloc_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
L.stalloc_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
L.stalloc_last_error.restype = ctypes.c_char_p
L.stalloc_version.restype = ctypes.c_char_p
MIB = 1 << 20

def malloc(size, stream=0):
    return L.stalloc_malloc(size, 0, stream)

def free(block, stream=0):
    L.stalloc_free(block, 0, 0, stream)

def error():
    return L.stalloc_last_error().decode()

def check(size=MIB):
    "A block that can be written and read."
    block = malloc(size)
    assert block, error()
    ctypes.memset(block, 0x5A, size)
    assert ctypes.string_at(block, size) == b"\\x5a" * size
    free(block)
"""


class Program:
    """A program that runs, and what it wrote when it has ended."""

    def __init__(self, text, conf, environment, cache):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STALLOC_", "FAKECUDA_"))}
        env |= {"SHIM": str(SHIM), "FAKECUDA_CAPACITY": str(1 << 30), "FAKECUDA_ANY_STREAM": "1"}
        env |= {"PACKAGE": str(ROOT / "python"), "XDG_CACHE_HOME": str(cache)}
        if conf is not None:
            env["STALLOC_CONF"] = conf
        env |= environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            # A shell starts what is to run in the background with SIGINT ignored, and Python
            # then has no handler for it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def line(self):
        """The next line it writes."""
        return self.process.stdout.readline().strip()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout=600):
        """(stdout, stderr); the exit status must be 0."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"no end after {timeout} s\n{out}\n{err}")
        assert self.process.returncode == 0, f"status {self.process.returncode}\n{out}\n{err}"
        return out, err


# Plays a recording of one stream, $TRACE, in a program.
PLAY = """
import gzip, json
sys.path.insert(0, os.environ["PACKAGE"])
from stalloc import _library
library = _library.Library(os.environ["SHIM"])
live = {}
for line in gzip.open(os.environ["TRACE"], "rt"):
    words = line.strip().split(",")
    if line.startswith("# step"):
        L.stalloc_step(0)
    elif words[0] == "a":
        live[words[1]] = malloc(int(words[2]))
        assert live[words[1]], error()
    elif words[0] == "r":
        free(live.pop(words[1]))
"""


def play(run, trace, then, conf=""):
    """What the program prints as JSON that plays a recording and then goes on so."""
    environment = {"FAKECUDA_CAPACITY": str(80 << 30), "FAKECUDA_POISON": "0"}
    environment["TRACE"] = str(trace)
    out, _ = run(PLAY + then, conf=f"driver:{DRIVER},engine:{ENGINE}{conf}", **environment)
    return json.loads(out)
