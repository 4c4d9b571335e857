#!/usr/bin/env python3
"""Trains a Llama-like model on synthetic tokens under a chosen GPU memory allocator.

Plain PyTorch: RMSNorm, rotary positions, SwiGLU, scaled dot-product attention, AdamW, bfloat16
throughout. The default has about 1.3 billion weights. Everything is deterministic, so the same
options give the same losses, bit for bit, whatever the allocator.

    python examples/train_llama.py --allocator stalloc --json out.json
    python examples/train_llama.py --tiny          # seconds on a CPU
"""

import argparse
import dataclasses
import sys

import harness


@dataclasses.dataclass
class Config:
    layers: int
    width: int
    heads: int
    vocabulary: int
    recompute: bool

    @property
    def hidden(self):
        """SwiGLU's inner width: 8/3 of the model's, rounded up to 128 as Llama does."""
        return -(-8 * self.width // 3 // 128) * 128


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=24)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=8)
    group.add_argument("--seq", type=harness.positive, default=1024, help="tokens per sequence")
    group.add_argument(
        "--recompute", action="store_true", help="keep layer inputs only, recompute the rest"
    )
    group.add_argument(
        "--eval-every", type=harness.positive, metavar="N", help="evaluate after every Nth step"
    )
    group.add_argument("--eval-batch", type=harness.positive, help="default: twice --batch")
    group.add_argument(
        "--batch-change",
        type=_batch_change,
        metavar="STEP:BATCH",
        help="use another batch size from this step on (counted from 0)",
    )
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.vocabulary = 2, 64, 2, 256
        args.batch, args.seq = min(args.batch, 4), min(args.seq, 32)
    args.heads = args.heads or max(1, args.width // 128)
    args.eval_batch = args.eval_batch or 2 * args.batch
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    return args


def _batch_change(text):
    try:
        step, batch = (int(part) for part in text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected STEP:BATCH, as in 15:4") from None
    if step < 0 or batch < 1:
        raise argparse.ArgumentTypeError(f"{text}: STEP must be 0 or more and BATCH positive")
    return step, batch


class Example(harness.Example):
    def setup(self, device):
        import decoder

        args, self.device = self.args, device
        config = Config(args.layers, args.width, args.heads, args.vocabulary, args.recompute)
        self.model, self.optimizer = decoder.build(lambda: make_model(config), device)
        return self.model

    def step(self, number):
        import decoder

        args = self.args
        batch, phase = args.batch, "train"
        if args.batch_change and number >= args.batch_change[0]:
            batch = args.batch_change[1]
            phase = f"batch {batch}"
        due = bool(args.eval_every) and (number + 1) % args.eval_every == 0
        with decoder.fast_attention(self.device):
            loss = decoder.update(self.loss(batch, number), self.optimizer)
            evaluation = self.evaluate(number) if due else None
        if due:
            phase += "+eval"
        return harness.Step(loss, batch * args.seq, phase, evaluation)

    def loss(self, batch, number):
        import decoder

        inputs, targets = decoder.make_batch(self.args, batch, self.args.seq, number, self.device)
        return decoder.loss_of(self.model(inputs)[0], targets)

    def evaluate(self, number):
        import torch

        with torch.no_grad():
            return self.loss(self.args.eval_batch, -1 - number).item()


def make_model(config):
    import decoder

    return decoder.Decoder(
        config.layers,
        config.width,
        config.heads,
        config.vocabulary,
        lambda: decoder.SwiGLU(config.width, config.hidden),
        config.recompute,
    )


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
