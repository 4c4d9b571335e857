"""Requests wait for copies on another stream instead of making memory, and the device does not."""

import statistics
import time

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()

LAYERS, STEPS = 60, 20
SIZES = [(96 + 32 * (n % 5)) * MIB for n in range(LAYERS)]

# A training step that offloads: each layer's activation is copied to the host on another stream,
# while the device computes the next, and is freed when the copy is queued. The host runs ahead.
PROGRAM = """
import json, sys, time
import torch
LAYERS, STEPS, SIZES = {layers}, {steps}, {sizes}
side = torch.cuda.Stream()
host = torch.empty(max(SIZES), dtype=torch.uint8, pin_memory=True)
weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
times, sums, drivers = [], [], []
torch.cuda.synchronize()
for step in range(STEPS):
    began, total = time.perf_counter(), torch.zeros((), device="cuda", dtype=torch.int64)
    for layer, size in enumerate(SIZES):
        x = torch.full((size,), (step + layer) % 251, dtype=torch.uint8, device="cuda")
        for _ in range(12):
            weight @ weight
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host[:size].copy_(x, non_blocking=True)
        total += x[:: MIB].sum()
        x.record_stream(side)
        del x
    sums.append(total)
    torch.cuda.synchronize()
    times.append(1e3 * (time.perf_counter() - began))
    STEP
result = {{"ms": times, "sums": [int(s) for s in sums],
          "reserved": torch.cuda.max_memory_reserved(), "driver_ms": drivers}}
STATS
print(json.dumps(result))
""".replace("MIB", str(MIB))


def train(allocator, wait=True):
    text = PROGRAM.format(layers=LAYERS, steps=STEPS, sizes=SIZES)
    begin, step, stats = "", "", ""
    if allocator == "stalloc":
        begin = f"import stalloc; assert stalloc.enable(wait={wait}, cache=False)\n"
        step = "stalloc.step(); drivers.append(stalloc.stats().driver_ns / 1e6)"
        stats = "s = stalloc.stats(); result.update(waits=s.waits, waited_ms=s.wait_ns / 1e6)"
    return gpu.child(begin + text.replace("    STEP", "    " + step).replace("STATS", stats))


def check_less_memory_and_the_same_step():
    """Turns of native, stalloc and stalloc that does not wait."""
    runs = {"native": [], True: [], False: []}
    for _ in range(3):
        runs["native"].append(train("native"))
        for wait in (True, False):
            runs[wait].append(train("stalloc", wait))
    sums = runs["native"][0]["sums"]
    assert all(run["sums"] == sums for each in runs.values() for run in each)
    on, off = runs[True], runs[False]
    assert all(run["waits"] > 0 for run in on), [run["waits"] for run in on]
    assert all(run["waits"] == 0 for run in off)

    def told(name):
        label = {True: "waiting", False: "not waiting"}.get(name, name)
        times = [statistics.median(run["ms"][4:]) for run in runs[name]]
        held = max(run["reserved"] for run in runs[name])
        first = statistics.median(sum(run["ms"][:4]) for run in runs[name])
        words = (
            f"{label} {held / GIB:.2f} GiB, step {statistics.median(times):.1f} ms "
            f"({min(times):.1f}-{max(times):.1f}), first four {first:.0f} ms"
        )
        for run in runs[name]:
            calls = [b - a for a, b in zip(run["driver_ms"][3:], run["driver_ms"][4:])]
            words += f", driver {statistics.median(calls):.1f} ms" if calls else ""
        return words

    waited = max(run["waited_ms"] for run in on)
    words = "; ".join(told(name) for name in runs) + f"; waited {waited:.0f} ms in all"
    most = max(run["reserved"] for run in on)
    assert most < min(run["reserved"] for run in off), f"waiting saved no memory: {words}"
    return words


def check_two_streams_that_wait_for_each_other_end():
    """Each of two threads holds back what the other's wait needs until it has gone on itself."""
    import threading

    side = [torch.cuda.Stream(), torch.cuda.Stream()]
    gates = [torch.cuda.Event(), torch.cuda.Event()]
    meet = threading.Barrier(2)
    longest = [0.0, 0.0]

    def rank(me):
        for _ in range(20):
            with torch.cuda.stream(side[me]):
                kept = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
                torch.cuda._sleep(2_000_000)
                for x in kept:
                    x.record_stream(side[1 - me])
                del kept, x
                meet.wait()
                began = time.perf_counter()
                more = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
                longest[me] = max(longest[me], time.perf_counter() - began)
                gates[me].record()
                meet.wait()
                side[me].wait_event(gates[1 - me])
                del more
            stalloc.step()
        side[me].synchronize()

    threads = [threading.Thread(target=rank, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return f"the longest four requests took {1e3 * max(longest):.1f} ms"


gpu.run(globals())
