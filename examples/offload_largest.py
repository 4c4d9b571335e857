#!/usr/bin/env python3
"""The largest model that trains under a limit, in layers, with its tokens/s, by allocator and by
who has its optimizer states.

    python examples/offload_largest.py [--limits 24 40 80] [--ways ...] [--budget 120]

The model of offload_model.py with more or fewer layers, AdamW, sequences of 2048, recomputed. Each
trial is a process of its own, with the number of layers that the trials before suggest, until one
trains and one with a layer more does not; then the largest is timed, with larger steps. The losses
of stalloc with offloaded states are compared, bit for bit, with native's without a limit. Prints a
row of JSON for each way; the exit status is 1 if a loss or a parameter is not finite, or if two
losses differ in a bit.

PyTorch's limit does not count managed memory, which bitsandbytes' paged states are: they stay on
the card as long as it has room, and nothing pages. So its row is the best that it can do; models
whose states would not fit on the card beside the limit are not tried.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

GIB = 1 << 30
FIRST = 3  # steps that are not timed


class Way(NamedTuple):
    allocator: str
    optimizer: str
    bytes: int  # of the device's memory for each parameter, in the steady state
    rest: float  # GiB beside that, at a guess


WAYS = {
    "native": Way("native", "adamw", 16, 4.6),
    "expandable": Way("expandable", "adamw", 16, 4.0),
    "stalloc": Way("stalloc", "adamw", 16, 3.8),
    "stalloc, offload": Way("stalloc", "offload", 8, 4.5),
    "native, copied by hand": Way("native", "hand", 16, 0.5),
    "bitsandbytes PagedAdamW": Way("native", "paged", 8, 4.6),
    "torchao CPUOffloadOptimizer": Way("native", "cpu", 8, 4.6),
}
MANAGED = 8  # bytes a parameter that PagedAdamW's states take beside the limit


def optimizer_of(kind, model):
    import torch

    if kind == "paged":
        import bitsandbytes

        return bitsandbytes.optim.PagedAdamW(model.parameters(), lr=1e-4)
    if kind == "cpu":
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=torch.cuda.is_available())
    if kind == "offload":
        import stalloc

        stalloc.offload(optimizer)
    elif kind == "hand":
        import offload_states

        offload_states.by_hand(torch, optimizer)
    return optimizer


def train(options, optimizer, mark=lambda: None):
    """Trains some steps, and marks their ends; returns the losses, the median step's seconds, and
    what is wrong."""
    import measure
    import offload_model
    import torch

    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    of_model = argparse.Namespace(**{**vars(options), "shape": [options.layers, *options.shape]})
    torch.manual_seed(1)
    with device:
        model = offload_model.Model(*of_model.shape)
    model.recompute = 1
    optimizer = optimizer_of(optimizer, model)
    losses, seconds = [], []
    for number in range(options.steps):
        offload_model.synchronize(device)
        begun = time.perf_counter()
        some = offload_model.step(
            of_model, model, optimizer, number, device, contextlib.nullcontext
        )
        mark()
        losses += map(float, some)
        offload_model.synchronize(device)
        seconds.append(time.perf_counter() - begun)
    steps_of = [{"step": n, "loss": loss} for n, loss in enumerate(losses)]
    timed = seconds[FIRST:] or seconds[-1:]
    return losses, statistics.median(timed), measure.not_finite(steps_of, model)


def trial(options):
    """Trains in this process and prints what came of it."""
    import harness

    allocator, optimizer, _, _ = WAYS[options.way]
    stalloc = harness.choose_allocator(allocator)
    harness.make_deterministic()
    import torch

    row = {"device": torch.cuda.get_device_name()}
    if options.limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(options.limit * GIB / total, 1.0))
    try:
        marks = [stalloc.step] if stalloc else []
        losses, seconds, wrong = train(options, optimizer, *marks)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if not any(text in str(error) for text in harness.OUT_OF_MEMORY):
            raise
        row["out of memory"] = str(error).splitlines()[0][:200]
    else:
        tokens = options.batch * options.accumulate * options.length
        row.update(losses=losses, wrong=wrong)
        row["tokens/s"] = round(tokens / seconds)
        row["held, GiB"] = round(torch.cuda.max_memory_reserved() / GIB, 2)
    print(json.dumps(row), flush=True)


def child(options, way, limit, layers, steps, accumulate):
    """What a trial in a process of its own says."""
    words = {
        "--way": way, "--limit": limit, "--layers": layers, "--steps": steps,
        "--batch": options.batch, "--length": options.length, "--accumulate": accumulate,
    }  # fmt: skip
    words = [str(word) for pair in words.items() for word in pair]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, __file__, *words, "--shape", *map(str, options.shape)],
            capture_output=True, text=True, timeout=options.patience,
            env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": ""},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {options.patience:.0f} s"}
    if done.returncode == 0:
        row = json.loads(done.stdout.splitlines()[-1])
    else:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        row = {"failed": why[-300:]}
    seen = row.get("held, GiB") or row.get("out of memory") or row.get("failed")
    took = time.monotonic() - begun
    print(f"{way}, {limit} GiB, {layers} layers: {seen}, {took:.0f} s", file=sys.stderr, flush=True)
    return row


def layer_of(options):
    """Parameters of a layer, and of everything else."""
    width, inner, vocabulary = options.shape
    return width * (4 * width + 3 * inner + 2), width * (2 * vocabulary + 1)


def search(options, way, limit, most, attempt):
    """The largest number of layers that trains, at most `most`, and what the trial with one more
    said, None if there was none; attempt(layers) is a trial."""
    layer, rest = layer_of(options)
    # Of each layer the input is kept for its recomputation, too.
    size = layer * WAYS[way].bytes + options.batch * options.length * options.shape[0] * 4
    guess = ((limit - WAYS[way].rest) * GIB - rest * WAYS[way].bytes) // size
    fits, fails, refused, jump = 0, most + 1, None, 1
    ends = time.monotonic() + options.budget
    while fails - fits > 1 and time.monotonic() < ends:
        layers = int(max(fits + 1, min(guess, fails - 1)))
        row = attempt(layers)
        if "losses" in row:
            room = (limit - row["held, GiB"]) * GIB // size
            fits, guess = layers, layers + max(jump, room)
        elif "out of memory" in row:
            fails, refused, guess = layers, row["out of memory"], layers - jump
        else:
            return fits, row["failed"]
        jump *= 2
        if fits and refused:
            guess = (fits + fails) // 2
    return fits, refused if fails - fits == 1 else None


def largest(options, way, limit):
    """The row of a way under a limit."""
    row, most = {"way": way, "limit, GiB": limit}, options.most
    if WAYS[way].optimizer == "paged":
        layer, rest = layer_of(options)
        most = min(most, int((options.card - limit - 4) * GIB / MANAGED - rest) // layer)
        row["layers are bounded by the card to"] = most
    row["layers"], row["one more"] = search(
        options, way, limit, most, lambda layers: child(options, way, limit, layers, 3, 2)
    )
    while row["layers"] > 0:
        timed = child(options, way, limit, row["layers"], options.steps, options.accumulate)
        if "out of memory" not in timed:
            layer, rest = layer_of(options)
            row["billions of parameters"] = round((row["layers"] * layer + rest) / 1e9, 2)
            return {**row, **timed}
        row["layers"], row["one more"] = row["layers"] - 1, timed["out of memory"]
    return {**row, "unfinished": "nothing has trained within the budget"}


def compare(options, row):
    """Whether native without a limit has the same losses."""
    expected = child(options, "native", 0, row["layers"], options.steps, options.accumulate)
    if "losses" in expected:
        row["same losses as native"] = expected["losses"] == row["losses"]
    else:
        row["same losses as native"] = expected.get("out of memory") or expected["failed"]
    return row["same losses as native"] is not False


def card():
    """The GiB of the device, asked in a process of its own."""
    code = "import torch; print(torch.cuda.get_device_properties(0).total_memory)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) / GIB


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=float, nargs="+", default=[24, 40, 80])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=8, help="batches of a timed step")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=7, help="of which those after the third count")
    parser.add_argument("--shape", type=int, nargs=3, default=[2048, 5504, 32000])
    parser.add_argument("--budget", type=float, default=100, help="seconds of a search")
    parser.add_argument("--patience", type=float, default=150, help="seconds of a trial")
    parser.add_argument("--most", type=int, default=400, help="layers")
    parser.add_argument("--no-compare", action="store_true", help="leave the losses' check out")
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        return trial(options)
    options.card, good = card(), True
    for limit in options.limits:
        for way in options.ways:
            row = largest(options, way, limit)
            if WAYS[way].optimizer == "offload" and row.get("losses") and not options.no_compare:
                good = compare(options, row) and good
            good = good and not row.get("wrong")
            row.pop("losses", None)
            print(json.dumps(row), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
