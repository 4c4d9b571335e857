"""What a step costs the host, and what the device: CPU time of threads, the host's own speed, and
how long kernels ran.
"""

import os
import statistics
import time
from pathlib import Path


def thread_seconds():
    """What the threads have run so far, by what they do: main, autograd's, all others."""
    sums = dict.fromkeys(("main", "autograd", "others"), 0.0)
    for task in Path("/proc/self/task").glob("*"):
        try:
            name, ran = (task / "comm").read_text(), (task / "schedstat").read_text()
        except OSError:  # it has just ended
            continue
        kind = "autograd" if name.startswith("pt_autograd") else "others"
        if int(task.name) == os.getpid():
            kind = "main"
        sums[kind] += int(ran.split()[0]) * 1e-9
    return sums


def speed_us():
    """The host's speed: microseconds that a fixed piece of Python and small C calls takes here.

    A shared machine has fast and slow times, 1.4 apart: a step is compared only with those that ran
    at the same speed. The median of rounds of which each is far shorter than such a time.
    """
    import torch

    rounds = []
    for _ in range(15):
        begun, total = time.perf_counter_ns(), 0
        for number in range(1000):
            total += number * number
        for _ in range(100):
            torch.empty(8)
        rounds.append(time.perf_counter_ns() - begun)
    return statistics.median(rounds) / 1000


def device_ms(step):
    """What a step's kernels and copies run on the device, by the profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    there = torch.autograd.DeviceType.CUDA
    events = seen.profiler.kineto_results.events()
    return sum(e.duration_ns() for e in events if e.device_type() == there) / 1e6
