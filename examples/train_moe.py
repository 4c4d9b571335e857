#!/usr/bin/env python3
"""Trains a mixture-of-experts language model under a chosen GPU memory allocator.

The experts' share of the tokens changes from step to step and with it the sizes of what they
ask for: the hard case for an allocator. Three presets, each 15 to 30 GiB:

    mixtral   8 large experts, 2 a token
    qwen      60 small experts, 4 a token, and a shared one, as in Qwen1.5-MoE
    fine      64 smaller experts, 8 a token, and a shared one, rows sorted by expert

Deterministic like train_llama.py: experts.py says how. The losses of the same options are the
same bit for bit, whatever the allocator.

    python examples/train_moe.py --preset qwen --recompute --allocator stalloc
    python examples/train_moe.py --preset fine --tiny          # seconds on a CPU
"""

import argparse
import sys

import harness

PRESETS = {
    "mixtral": {
        "layers": 8, "width": 2048, "heads": 16, "experts": 8, "top": 2, "hidden": 3584,
        "shared": 0, "dispatch": "loop", "batch": 8,
    },
    "qwen": {
        "layers": 8, "width": 1024, "heads": 8, "experts": 60, "top": 4, "hidden": 704,
        "shared": 2816, "dispatch": "loop", "batch": 16,
    },
    "fine": {
        "layers": 8, "width": 1024, "heads": 8, "experts": 64, "top": 8, "hidden": 512,
        "shared": 1024, "dispatch": "sort", "batch": 16,
    },
}  # fmt: skip


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data", "what is not given is the preset's")
    group.add_argument("--preset", choices=tuple(PRESETS), default="mixtral")
    for name in ("layers", "width", "heads", "experts", "top", "hidden", "batch"):
        group.add_argument(f"--{name}", type=harness.positive)
    group.add_argument("--shared", type=int, help="inner width of the shared expert, 0: none")
    group.add_argument("--dispatch", choices=("loop", "sort"), help="see experts.py")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--seq", type=harness.positive, default=1024, help="tokens per sequence")
    group.add_argument(
        "--recompute", action="store_true", help="keep layer inputs only, recompute the rest"
    )
    args = parser.parse_args(argv)
    for name, value in PRESETS[args.preset].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.tiny:
        args.layers, args.width, args.heads, args.hidden, args.vocabulary = 2, 64, 2, 32, 256
        args.shared, args.batch, args.seq = min(args.shared, 32), 2, min(args.seq, 32)
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    if args.top > args.experts:
        parser.error(f"--top {args.top} is more than there are --experts ({args.experts})")
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import decoder  # noqa: F401
        import experts  # noqa: F401

    def setup(self, device):
        import decoder
        import experts

        args, self.device = self.args, device

        def feed():
            return experts.Mixture(
                args.width, args.hidden, args.experts, args.top, args.shared, args.dispatch
            )

        def make():
            sizes = (args.layers, args.width, args.heads, args.vocabulary)
            return decoder.Decoder(*sizes, feed, args.recompute)

        self.model, self.optimizer = decoder.build(make, device)
        return self.model

    def step(self, number):
        import decoder

        args = self.args
        inputs, targets = decoder.make_batch(args, args.batch, args.seq, number, self.device)
        with decoder.fast_attention(self.device):
            logits, balance = self.model(inputs)
            loss = decoder.loss_of(logits, targets) + balance
            del logits
            loss = decoder.update(loss, self.optimizer)
        return harness.Step(loss, args.batch * args.seq)


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
