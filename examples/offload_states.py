"""What a model trains at under a limit, with its optimizer states offloaded and without.

The model of offload_model.py with sequences of 2048, recomputed. Prints a row of JSON for each way:
tokens/s (median of the steps after the third), losses, and the most that was held. A way in which
a loss or a parameter is not finite fails.

    python examples/offload_states.py [--limit 24] [--batch 2] [--accumulate 8] [--turns 1]
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

GIB = 1 << 30
WAYS = {  # allocator, limited, way
    "native, no limit": ("native", False, "plain"),
    "stalloc, no limit": ("stalloc", False, "plain"),
    "stalloc, offload, no limit": ("stalloc", False, "offload"),
    "stalloc, offload": ("stalloc", True, "offload"),
    "stalloc": ("stalloc", True, "plain"),
    "native, copied by hand": ("native", True, "hand"),
    "stalloc, copied by hand": ("stalloc", True, "hand"),
}


def by_hand(torch, optimizer):
    """States are copied to pinned memory behind each step, and back before it, with waits."""
    host = {}

    def back(*_):
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if (id(values), key) in host:
                    copy = host[id(values), key]
                    tensor.untyped_storage().resize_(copy.nbytes)
                    tensor.copy_(copy, non_blocking=True)
        torch.cuda.synchronize()

    def away(*_):
        moved = []
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if tensor.is_cuda and tensor.nbytes >= 1 << 20:
                    if (id(values), key) not in host:
                        host[id(values), key] = torch.empty_like(
                            tensor, device="cpu", pin_memory=True
                        )
                    host[id(values), key].copy_(tensor, non_blocking=True)
                    moved.append(tensor)
        torch.cuda.synchronize()
        for tensor in moved:
            tensor.untyped_storage().resize_(0)

    optimizer.register_step_pre_hook(back)
    optimizer.register_step_post_hook(away)


def run(options):
    allocator, limited, way = WAYS[options.way]
    import torch

    stalloc = None
    if allocator == "stalloc":
        import stalloc

        stalloc.enable(strict=True)
    if limited:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(options.limit * GIB / total)
    import measure
    import offload_model

    device = torch.device("cuda", 0)
    net, optimizer = offload_model.build(options, device)
    net.recompute = 0 if options.keep else 1
    if way == "offload":
        stalloc.offload(optimizer)
    elif way == "hand":
        by_hand(torch, optimizer)
    losses, times, seen = [], [], []
    for number in range(options.steps):
        begin = time.perf_counter()
        some = offload_model.step(options, net, optimizer, number, device, contextlib.nullcontext)
        if stalloc:
            stalloc.step()
        losses.append(sum(map(float, some)))
        times.append(time.perf_counter() - begin)
        seen.append(stalloc.stats().driver_ns / 1e9 if stalloc else 0.0)
    measure.require_finite(net, losses)
    tokens = options.batch * options.accumulate * options.length
    row = {
        "way": options.way, "device": torch.cuda.get_device_name(),
        "tokens/s": round(tokens / statistics.median(times[3:])),
        "seconds": [round(t, 3) for t in times],
        "losses": [round(x, 6) for x in losses],
        "held, GiB": round(torch.cuda.max_memory_reserved() / GIB, 2),
        "live, GiB": round(torch.cuda.max_memory_allocated() / GIB, 2),
    }  # fmt: skip
    if stalloc:
        stats = stalloc.stats()
        row["host, GiB"] = round(stats.backup / GIB, 2)
        row["retries"] = stats.retries
        row["driver, s a step"] = [round(b - a, 3) for a, b in zip(seen, seen[1:])]
    print(json.dumps(row), flush=True)


def parser(text, steps, turns, ways):
    """The options of this program, and of what looks at its steps."""
    made = argparse.ArgumentParser(description=text)
    made.add_argument("--limit", type=float, default=24, help="GiB")
    made.add_argument("--batch", type=int, default=2)
    made.add_argument("--accumulate", type=int, default=8)
    made.add_argument("--length", type=int, default=2048)
    made.add_argument("--steps", type=int, default=steps)
    made.add_argument("--shape", type=int, nargs=4, default=[24, 2048, 5504, 32000])
    made.add_argument("--turns", type=int, default=turns)
    made.add_argument("--ways", nargs="*", default=ways)
    made.add_argument("--way", help=argparse.SUPPRESS)
    return made


def main():
    options_of = parser(__doc__, steps=8, turns=1, ways=list(WAYS))
    options_of.add_argument("--keep", action="store_true", help="no recomputation")
    options = options_of.parse_args()
    if options.way:
        return run(options)
    for _ in range(options.turns):
        for way in options.ways:
            child = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--way", way],
                capture_output=True, text=True,
                env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ""},
            )  # fmt: skip
            if child.returncode == 0:
                print(child.stdout.strip(), flush=True)
            else:
                why = (child.stderr.strip().splitlines() or ["killed"])[-1]
                print(json.dumps({"way": way, "failed": why[-300:]}), flush=True)
    return None


if __name__ == "__main__":
    main()
