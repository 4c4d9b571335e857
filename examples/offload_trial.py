"""Trials of offload_largest.py: a model of so many layers trains some steps in a process of its
own. What came of it is kept, so that a search goes on where it stopped.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from typing import NamedTuple

import harness
import ledger
import offload_states

GIB = 1 << 30


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
PACKAGES = {"paged": "bitsandbytes", "cpu": "torchao"}


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
    timed = seconds[offload_states.FIRST :] or seconds[-1:]
    return losses, statistics.median(timed), measure.not_finite(steps_of, model)


def trial(options):
    """Trains in this process and prints what came of it."""
    allocator, optimizer, _, _ = WAYS[options.way]
    stalloc = harness.choose_allocator(allocator)
    harness.make_deterministic()
    offload_states.limit(options.limit)
    import measure
    import torch

    row = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    try:
        marks = [stalloc.step] if stalloc else []
        losses, seconds, wrong = train(options, optimizer, *marks)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if not any(text in str(error) for text in harness.OUT_OF_MEMORY):
            raise
        row["out of memory"] = str(error).splitlines()[0][:200]
    else:
        tokens = options.batch * options.accumulate * options.length
        row.update(losses=losses, wrong=wrong or measure.not_served(stalloc))
        row["tokens/s"] = round(tokens / seconds)
        row["held, GiB"] = round(torch.cuda.max_memory_reserved() / GIB, 2)
    print(json.dumps(row), flush=True)


class Trials:
    """Makes trials in processes of their own; those of this commit that --json has are there."""

    def __init__(self, options):
        self.options, self.kept, self.rows = options, {}, []
        self.alone = offload_states.Alone(__file__, options.budget, options.timeout)
        lines = options.json.read_text().splitlines() if options.json.exists() else []
        for line in lines:
            with contextlib.suppress(ValueError):  # a line that was cut off
                row = json.loads(line)
                if row["commit"] != ledger.commit():
                    continue
                if row["part"] == "largest":
                    self.rows.append(row)
                elif "failed" not in row["said"]:
                    self.kept[ledger.key_of(row["of"])] = row["said"]

    def __call__(self, way, limit, layers, steps, accumulate):
        """What a trial says: its losses, or "out of memory", or "failed"."""
        options = self.options
        of = {
            "way": way, "limit": limit, "layers": layers, "steps": steps, "batch": options.batch,
            "length": options.length, "accumulate": accumulate, "shape": options.shape,
        }  # fmt: skip
        if ledger.key_of(of) in self.kept:
            return self.kept[ledger.key_of(of)]
        words = [[f"--{key}", value] for key, value in of.items() if key != "shape"]
        words.append(["--shape", *options.shape])
        said = self.alone.row([word for pair in words for word in pair])
        ledger.append(options.json, {"part": "trial", "of": of, "said": said})
        self.kept[ledger.key_of(of)] = said
        seen = said.get("held, GiB") or said.get("out of memory") or said.get("failed")
        print(f"{way}, {limit} GiB, {layers} layers: {seen}", file=sys.stderr, flush=True)
        return said

    def keep(self, row):
        """Keeps a row of a way, unless it is there."""
        row = {"part": "largest", **row}
        print(json.dumps(row), flush=True)
        if not any(row.items() <= old.items() for old in self.rows):
            ledger.append(self.options.json, row)


def main():
    parser = argparse.ArgumentParser(description="A trial of offload_largest.py.")
    parser.add_argument("--way", choices=list(WAYS), required=True)
    parser.add_argument("--limit", type=float, default=0, help="GiB; 0: all of the device")
    for name in ("layers", "batch", "accumulate", "length", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--shape", type=int, nargs=3, required=True)
    return trial(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
