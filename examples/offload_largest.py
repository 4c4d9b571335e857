#!/usr/bin/env python3
"""The largest model that trains under a limit, in layers, with its tokens/s, by allocator and by
what offloads its optimizer states.

    python examples/offload_largest.py --json largest.jsonl               # again until it is done
    python examples/offload_largest.py --json largest.jsonl --limits 24 --ways native

The model of offload_model.py with more or fewer layers, AdamW, sequences of 2048, recomputed. Each
trial is a process of its own (offload_trial.py), with the number of layers that the trials before
suggest, until one trains and one with a layer more does not; then the largest is timed, with larger
steps. The losses of stalloc with offloaded states are compared, bit for bit, with native's without
a limit. Trials are kept in --json one by one, and so is a row of each way; what is there of this
commit is not run again. The exit status is 0 if all was measured, 75 if the time was up before, 1
if a loss or a parameter is not finite, if two losses differ in a bit, or if a trial failed.

PyTorch's limit does not count managed memory, which bitsandbytes' paged states are: they stay on
the card as long as it has room, and nothing pages. So its row is the best that it can do; models
whose states would not fit on the card beside the limit are not tried.
"""

import argparse
import subprocess
import sys

import harness
import ledger
import offload_states
from offload_trial import GIB, PACKAGES, WAYS, Trials

MANAGED = 8  # bytes a parameter that PagedAdamW's states take beside the limit


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
    while fails - fits > 1:
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
    return fits, refused


def largest(options, trials, way, limit):
    """The row of a way under a limit."""
    row, most = {"way": way, "limit, GiB": limit}, options.most
    kind = WAYS[way].optimizer
    if kind in PACKAGES and (why := harness.missing(PACKAGES[kind])):
        return {**row, "not run": why}
    layer, rest = layer_of(options)
    if kind == "paged":
        most = min(most, int((options.card - limit - 4) * GIB / MANAGED - rest) // layer)
        row["layers are bounded by the card to"] = most
    row["layers"], row["one more"] = search(
        options, way, limit, most, lambda layers: trials(way, limit, layers, 3, 2)
    )
    while row["layers"] > 0:
        timed = trials(way, limit, row["layers"], options.steps, options.accumulate)
        if "out of memory" not in timed:
            row["billions of parameters"] = round((row["layers"] * layer + rest) / 1e9, 2)
            return {**row, **timed}
        row["layers"], row["one more"] = row["layers"] - 1, timed["out of memory"]
    return {**row, "failed": "not one layer has trained"}


def compared(options, trials, row):
    """Whether native without a limit has the same losses, bit for bit; for the row."""
    expected = trials("native", 0, row["layers"], options.steps, options.accumulate)
    if "failed" in expected:
        return {"failed": f"native: {expected['failed']}"}
    same = expected.get("out of memory") or expected["losses"] == row["losses"]
    return {"same losses as native": same}


def card():
    """The GiB of the device, asked in a process of its own."""
    code = "import torch; print(torch.cuda.get_device_properties(0).total_memory)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"no GPU here: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout) / GIB


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=ledger.file, required=True, metavar="FILE")
    parser.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="of a piece")
    parser.add_argument("--limits", type=float, nargs="+", default=[24, 40, 80], metavar="GIB")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=8, help="batches of a timed step")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument(
        "--steps", type=offload_states.more_than_first, default=7,
        help="of which those after the third count",
    )  # fmt: skip
    parser.add_argument("--shape", type=int, nargs=3, default=[2048, 5504, 32000])
    parser.add_argument("--timeout", type=float, default=150, help="seconds of a trial")
    parser.add_argument("--most", type=int, default=400, help="layers")
    parser.add_argument("--no-compare", action="store_true", help="leave the losses' check out")
    return parser.parse_args(argv)


def main(argv=None, trials=None):
    """`trials` stands for those of a GPU in tests."""
    options = parse_arguments(argv)
    options.card, good = 80.0 if trials else card(), True
    trials = trials or Trials(options)
    try:
        for limit in options.limits:
            for way in options.ways:
                row = largest(options, trials, way, limit)
                offloaded = WAYS[way].optimizer == "offload" and not options.no_compare
                if offloaded and row.get("losses"):
                    row |= compared(options, trials, row)
                good = good and row.get("same losses as native") is not False
                good = good and not row.get("wrong") and "failed" not in row
                row.pop("losses", None)
                trials.keep(row)
    except ledger.OutOfTime:
        print("not all is measured: run this again", file=sys.stderr)
        return ledger.EXIT_MORE if good else 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
