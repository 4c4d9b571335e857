"""What the programs of test_pools.py and test_captured.py share: cases with a result each, and the
bytes that must live.

    python PROGRAM --allocator native|stalloc CASE...

prints a line of JSON a case as it ends."""

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("cases", nargs="+")
parser.add_argument("--allocator", default="stalloc", choices=("stalloc", "native"))
args = parser.parse_args()
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
if args.allocator == "stalloc":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
    import stalloc

    assert stalloc.enable() and stalloc.route() == "adapter"
import torch  # noqa: E402

MIB = 1 << 20
# Warnings alone would leave flash attention's backward with atomic additions.
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False  # it costs time in every allocation
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
torch.cuda.init()


def full(mib, value):
    return torch.full((mib * MIB,), value, dtype=torch.uint8, device="cuda")


def reserved():
    return torch.cuda.memory_reserved()


def driver():
    """Calls of the driver by stalloc so far, and their milliseconds."""
    if args.allocator == "native":
        return 0, 0
    s = stalloc.stats()
    return s.driver_calls, s.driver_ns / 1e6


def clean():
    gc.collect()
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


def pool_of(entry):
    """A segment's or an event's private pool, or None."""
    pool = tuple(entry.get("segment_pool_id") or (0, 0))
    return pool if pool != (0, 0) else None


class Lives:
    """Bytes that live at once, inside and outside of private pools, from PyTorch's memory history.

    A graph remembers its addresses, and nothing else may lie there between replays. So what must
    be reserved is the most that lives outside, and the most that lives in the program's pool while
    its graphs are captured. Bytes are those that were asked for. One case a process: where a pool
    lay that is gone, others lie later."""

    def __init__(self):
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10**6)
        self.live, self.ranges, self.marks = {}, set(), []  # live: address: bytes, pool
        for segment in torch.cuda.memory_snapshot():
            for block in segment["blocks"]:
                if block["state"].startswith("active"):
                    self.live[block["address"]] = (block["requested_size"], pool_of(segment))
        self.first = 0

    def events(self):
        """All so far. Where private pools lie is noted."""
        seen = torch.cuda.memory._snapshot()
        for s in seen["segments"]:
            if pool_of(s):
                self.ranges.add((s["address"], s["address"] + s["total_size"], pool_of(s)))
        return seen["device_traces"][torch.cuda.current_device()]

    def mark(self):
        """A step begins: standard error tells of each what lived."""
        self.marks.append(len(self.events()))

    def begin(self):
        """What lives from here on counts."""
        self.first = len(self.events())
        torch.cuda.reset_peak_memory_stats()

    def end(self):
        """The most outside, what is there in the end, and the most in pools; no more history."""
        events = self.events()
        counted = torch.cuda.memory_stats()["requested_bytes.all.peak"]
        torch.cuda.memory._record_memory_history(enabled=None)
        now, outside, inside, peak, step = {}, 0, 0, 0, {}
        for size, pool in self.live.values():
            now[pool] = now.get(pool, 0) + size
        for i, event in enumerate(events):
            address = event.get("addr")
            if event["action"] in ("alloc", "free_completed") and address in self.live:
                size, pool = self.live.pop(address)
                now[pool] -= size
            if event["action"] == "alloc":
                there = (p for low, high, p in self.ranges if low <= address < high)
                pool = pool_of(event) or next(there, None)
                self.live[address] = (event["size"], pool)
                now[pool] = now.get(pool, 0) + event["size"]
            if i >= self.first:
                total = sum(now.values())
                outside = max(outside, now.get(None, 0))
                inside = max(inside, total - now.get(None, 0))
                peak = max(peak, total)
            step = {p: max(step.get(p, 0), n) for p, n in now.items()}
            if i + 1 in self.marks:
                told = ", ".join(f"{p or 'outside'} {n >> 20}" for p, n in step.items())
                print(f"before step {self.marks.index(i + 1)}: {told} MiB", file=sys.stderr)
                step = {}
        totals = {"peak": peak, "counted": counted}  # of all, by us and by PyTorch
        return {"outside": outside, "left": now.get(None, 0), "inside": inside, **totals}


def pools_hold():
    """What private pools have reserved; no history may be recorded."""
    return sum(s["total_size"] for s in torch.cuda.memory_snapshot() if pool_of(s))


def run(names):
    """Runs the cases that were asked for; the others still run when one fails."""
    for name in args.cases:
        begin = time.perf_counter()
        try:
            said, ok = names[name]() or "", True
        except Exception as error:
            said = f"{type(error).__name__}: {(str(error).splitlines() or ['?'])[0][:300]}"
            ok = False
        seconds = time.perf_counter() - begin
        print(json.dumps({"case": name, "ok": ok, "said": said, "s": seconds}), flush=True)
        clean()
    os._exit(0)  # a capture that failed may leave PyTorch's own state behind
