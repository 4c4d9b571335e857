#!/usr/bin/env python3
"""How fast a model trains under a memory limit, with idle memory on the host and without.

    python examples/offload.py --parts activations [--length 8192] [--turns 5] [--json FILE]

Needs a GPU; with the default sizes it ends in 120 s on an H100. Each run is added to --json when it
has ended. The exit status is 1 if a loss or a weight is not finite, if two ways differ in a bit, or
if one held more than its limit.
"""

import argparse
import sys
import time

import harness
import ledger


def main(argv=None):
    args = parse_arguments(argv)
    args.begun = time.monotonic()
    stalloc = harness.choose_allocator(args.allocator)
    stalloc = stalloc or harness.package()  # its functions are there under any allocator
    harness.make_deterministic()
    import torch

    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu" and not args.tiny:
        raise SystemExit("no GPU here: add --tiny for a smoke test on the CPU")
    status = 0
    for part in args.parts:
        module = part_of(part)
        rows = module.run(args, stalloc, device)
        text = module.table(rows)
        name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        print(f"{part}: {name}, PyTorch {torch.__version__}, {args.allocator}\n{text}", flush=True)
        status = max(status, int("WRONG" in text))
    return status


def part_of(name):
    """The module of a part."""
    import offload_activations

    return {"activations": offload_activations}[name]


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=["activations"], default=["activations"])
    parser.add_argument(
        "--json", type=ledger.file, metavar="FILE", help="add the runs to this file"
    )
    parser.add_argument("--tiny", action="store_true", help="a model for a smoke test on the CPU")
    parser.add_argument(
        "--shape", type=int, nargs=4, default=[24, 2048, 5504, 32000],
        metavar=("LAYERS", "WIDTH", "INNER", "VOCABULARY"),
    )  # fmt: skip
    parser.add_argument("--batch", type=harness.positive, default=1)
    parser.add_argument("--length", type=harness.positive, default=8192, help="of a sequence")
    parser.add_argument("--accumulate", type=harness.positive, default=1, help="batches to a step")
    parser.add_argument("--allocator", default="stalloc", help="native, expandable or stalloc")
    group = parser.add_argument_group("activations")
    group.add_argument(
        "--shares", type=float, nargs="*", default=[0.9, 0.8, 0.65],
        help="limits, between the peak of full recomputation (0) and that without (1)",
    )  # fmt: skip
    group.add_argument(
        "--budget", type=float, default=115, help="seconds; the last ways are left out"
    )
    group.add_argument("--turns", type=harness.positive, default=1)
    group.add_argument("--seed", type=int, default=1, help="of the order of ways in a turn")
    group.add_argument(
        "--peers", nargs="+", default=["save_on_cpu", "TRL"], help="other offloading"
    )
    group.add_argument("--no-peers", action="store_true", help="leave other offloading out")
    args = parser.parse_args(argv)
    if args.tiny:
        args.shape, args.length = [2, 64, 128, 100], 64
    return args


if __name__ == "__main__":
    sys.exit(main())
