#!/usr/bin/env python3
"""The largest model that trains under a limit, layer by layer, with its tokens/s, by allocator and
by who has its optimizer states.

    python examples/offload_largest.py [--limits 24 40 80] [--ways ...] [--budget 120]

The model of offload_model.py with more or fewer layers, fused AdamW, sequences of 2048, recomputed.
Each way is a process, which tries models of the sizes that the last try suggests, until one trains
and one with a layer more does not; then it times the largest. The losses of a way with offloaded
states are compared, bit for bit, with native's without a limit. Prints a row of JSON for each way;
the exit status is 1 if a loss or a parameter is not finite, or if two losses differ in a bit.
"""

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import time

GIB = 1 << 30
WAYS = {  # allocator, optimizer
    "native": ("native", "adamw"),
    "expandable": ("expandable", "adamw"),
    "stalloc": ("stalloc", "adamw"),
    "stalloc, offload": ("stalloc", "offload"),
    "bitsandbytes PagedAdamW": ("native", "paged"),
    "torchao CPUOffloadOptimizer": ("native", "cpu"),
}
ON_DEVICE = {"adamw": 16, "offload": 12, "paged": 12, "cpu": 9}  # bytes a parameter, at a guess
OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def optimizer_of(kind, model):
    import torch

    if kind == "paged":
        import bitsandbytes

        return bitsandbytes.optim.PagedAdamW(model.parameters(), lr=1e-4)
    if kind == "cpu":
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4, fused=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=torch.cuda.is_available())
    if kind == "offload":
        import stalloc

        stalloc.offload(optimizer)
    return optimizer


def trial(options, layers, steps):
    """Trains so many steps; returns the losses, the fastest step's seconds, and what is wrong."""
    import measure
    import offload_model
    import torch

    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    of_model = argparse.Namespace(**{**vars(options), "shape": [layers, *options.shape]})
    torch.manual_seed(1)
    with device:
        model = offload_model.Model(*of_model.shape)
    model.recompute = 1
    optimizer = optimizer_of(WAYS[options.way][1], model)
    losses, seconds = [], []
    for number in range(steps):
        offload_model.synchronize(device)
        begun = time.perf_counter()
        some = offload_model.step(
            of_model, model, optimizer, number, device, contextlib.nullcontext
        )
        losses += map(float, some)
        offload_model.synchronize(device)
        seconds.append(time.perf_counter() - begun)
    steps_of = [{"step": n, "loss": loss} for n, loss in enumerate(losses)]
    return losses, min(seconds), measure.not_finite(steps_of, model)


def attempt(options, layers, steps):
    """As trial; None if memory ran out."""
    import torch

    try:
        return trial(options, layers, steps)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
        return None
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def search(options, begun):
    """The largest number of layers that trains, and whether one more was seen to fail."""
    width, inner, vocabulary = options.shape
    layer = width * (4 * width + 3 * inner)
    room = options.limit * GIB - 4 * GIB  # activations
    rest = 2 * vocabulary * width
    guess = int((room / ON_DEVICE[WAYS[options.way][1]] - rest) / layer)
    fits, fails, jump = 0, 10**9, 2
    while fails - fits > 1 and time.monotonic() - begun < options.budget:
        layers = max(1, min(max(guess, fits + 1), fails - 1))
        if attempt(options, layers, 2):
            fits, guess = layers, layers + jump
        else:
            fails, guess = layers, layers - jump
            if fails == 1:
                break
        jump *= 2
        if fits and fails < 10**9:
            guess = (fits + fails) // 2
        print(f"{options.way}, {options.limit} GiB: {fits} fits, {fails} fails", file=sys.stderr)
    return fits, fails - fits == 1


def play(options):
    begun = time.monotonic()
    import harness

    harness.choose_allocator(WAYS[options.way][0])
    harness.make_deterministic()
    import torch

    row = {"way": options.way, "limit, GiB": options.limit, "device": torch.cuda.get_device_name()}
    if options.layers:  # without a limit, for its losses
        losses, _, wrong = trial(options, options.layers, options.steps)
        print(json.dumps({**row, "losses": losses, "wrong": wrong}))
        return
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(options.limit * GIB / total, 1.0))
    layers, sure = search(options, begun)
    row["layers"], row["a layer more fails"] = layers, sure
    if layers:
        torch.cuda.reset_peak_memory_stats()
        seen = attempt(options, layers, options.steps)
        if seen is None:
            row["failed"] = f"{layers} layers trained once, and not again"
        else:
            losses, seconds, row["wrong"] = seen
            tokens = options.batch * options.accumulate * options.length
            row["tokens/s"], row["losses"] = round(tokens / seconds), losses
            row["held, GiB"] = round(torch.cuda.max_memory_reserved() / GIB, 2)
    print(json.dumps(row))


def child(options, way, limit, more=()):
    """What a process prints as its last line, or why it failed."""
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--way", way, "--limit", str(limit), *more],
        capture_output=True, text=True,
        env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": ""},
    )  # fmt: skip
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    why = (done.stderr.strip().splitlines() or ["killed"])[-1]
    return {"way": way, "limit, GiB": limit, "failed": why[-300:]}


def compare(options, row):
    """Whether native without a limit has the same losses."""
    expected = child(options, "native", row["limit, GiB"], ["--layers", str(row["layers"])])
    row["same losses as native"] = (
        row["losses"] == expected["losses"] if "losses" in expected else expected["failed"]
    )
    return row["same losses as native"] is not False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=float, nargs="+", default=[24, 40, 80])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--shape", type=int, nargs=3, default=[2048, 5504, 32000])
    parser.add_argument("--budget", type=float, default=100, help="seconds of a search")
    parser.add_argument("--no-compare", action="store_true", help="leave the losses' check out")
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        return play(options)
    good = True
    for limit in options.limits:
        for way in options.ways:
            row = child(options, way, limit)
            if "offload" in way and row.get("losses") and not options.no_compare:
                good = compare(options, row) and good
            good = good and not row.get("wrong")
            row.pop("losses", None)
            print(json.dumps(row), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
