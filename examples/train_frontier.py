#!/usr/bin/env python3
"""Trains the model of offload_model.py one way: micro-batch, recomputation, what is on the host.

A step is of --sequences sequences, in micro-batches of --batch. --lengths gives each micro-batch a
length of its own, half to one and a half times --length and others in each step; a step has the
same number of tokens all the same.

    python examples/train_frontier.py --batch 4 --recompute 2 --allocator stalloc --memory-cap 32
    python examples/train_frontier.py --tiny                      # seconds on a CPU
"""

import argparse
import contextlib
import random
import sys

import harness

GIB = 1 << 30
# Of what an allocator may hold, live tensors may take this much where activations leave.
LIVE = 0.98


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument(
        "--shape", type=int, nargs=4, default=[24, 2048, 5504, 32000],
        metavar=("LAYERS", "WIDTH", "INNER", "VOCABULARY"),
    )  # fmt: skip
    group.add_argument("--batch", type=harness.positive, default=1, help="of a micro-batch")
    group.add_argument("--sequences", type=harness.positive, default=16, help="of a step")
    group.add_argument("--length", type=harness.positive, default=2048, help="of a sequence")
    group.add_argument("--lengths", action="store_true", help="micro-batches of other lengths")
    group.add_argument(
        "--recompute", type=int, default=0, metavar="N", help="every Nth layer; 0: none"
    )
    group.add_argument(
        "--offload", nargs="*", choices=("states", "activations"), default=[],
        help="these leave for the host as far as memory is short",
    )  # fmt: skip
    args = parser.parse_args(argv)
    if args.tiny:
        args.shape, args.length = [2, 64, 128, 100], 64
    if args.sequences % args.batch:
        parser.error(f"--sequences {args.sequences} is no multiple of --batch {args.batch}")
    args.accumulate = args.sequences // args.batch
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import offload_model  # noqa: F401
        import torch._dynamo  # noqa: F401, or the first optimizer does, for seconds

    def setup(self, device):
        import offload_model

        self.device = device
        self.model, self.optimizer = offload_model.build(self.args, device)
        self.model.recompute = self.args.recompute
        if "states" in self.args.offload:
            harness.package().offload(self.optimizer)
        return self.model

    def step(self, number):
        import offload_model

        losses = offload_model.step(
            self.args, self.model, self.optimizer, number, self.device, self.around(),
            lengths(self.args, number),
        )  # fmt: skip
        return harness.Step(sum(losses), self.args.sequences * self.args.length)

    def around(self):
        """What a forward pass is in."""
        if "activations" not in self.args.offload or self.device.type == "cpu":
            return contextlib.nullcontext
        cap = self.args.memory_cap
        live = int(LIVE * cap * GIB) if cap else None
        return lambda: harness.package().offload_activations(live)


def lengths(args, number):
    """Those of a step's micro-batches, which sum up to the same in each step."""
    each, count = args.length, args.accumulate
    if not args.lengths or count == 1:
        return [each] * count
    draw = random.Random(number)
    some = [draw.randrange(each // 2, each + 1, 8) for _ in range(count // 2)]
    some += [2 * each - length for length in some] + [each] * (count % 2)
    draw.shuffle(some)
    return some


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
