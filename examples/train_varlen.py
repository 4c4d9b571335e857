#!/usr/bin/env python3
"""Trains a Llama-like model on sequences of varying length, under a chosen GPU memory allocator.

Every step has another length, drawn from the seed: requests come in the same order as in the
step before, and all with other sizes. With --packed a step is one row of several sequences of
random lengths, as in fine-tuning without padding: attention sees each sequence alone, and the
number of sequences and of tokens varies.

Deterministic like train_llama.py, the variable-length flash kernel included.

    python examples/train_varlen.py --packed --allocator stalloc
    python examples/train_varlen.py --tiny --packed            # seconds on a CPU
"""

import argparse
import random
import sys

import harness


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=16)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=4, help="sequences, not packed")
    group.add_argument("--shortest", type=harness.positive, help="tokens; default: longest / 64")
    group.add_argument("--longest", type=harness.positive, default=2048, metavar="TOKENS")
    group.add_argument("--packed", action="store_true", help="several sequences in one row")
    group.add_argument(
        "--tokens", type=harness.positive, default=8192, help="most tokens of a packed row"
    )
    group.add_argument(
        "--attention",
        choices=("flash", "loop"),
        help="packed: one variable-length kernel (PyTorch 2.11, default on a GPU), or one call "
        "per sequence",
    )
    group.add_argument(
        "--recompute", action="store_true", help="keep layer inputs only, recompute the rest"
    )
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.vocabulary = 2, 64, 2, 256
        args.longest, args.tokens = min(args.longest, 64), min(args.tokens, 128)
    args.heads = args.heads or max(1, args.width // 128)
    args.shortest = args.shortest or max(1, args.longest // 64)
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    if args.shortest > args.longest or args.packed and args.longest > args.tokens:
        parser.error("want --shortest <= --longest, and --longest <= --tokens if packed")
    return args


def draw_pack(args, draw):
    """Lengths of a row's sequences, as many as come until one does not fit.

    All magnitudes are equally likely, as with documents.
    """
    lengths, spread = [], args.longest / args.shortest
    while True:
        length = round(args.shortest * spread ** draw.random())
        if sum(lengths) + length > args.tokens:
            return lengths
        lengths.append(length)


class Example(harness.Example):
    def setup(self, device):
        import decoder

        args, self.device = self.args, device
        hidden = -(-8 * args.width // 3 // 128) * 128
        self.model, self.optimizer = decoder.build(
            lambda: decoder.Decoder(
                args.layers, args.width, args.heads, args.vocabulary,
                lambda: decoder.SwiGLU(args.width, hidden), args.recompute,
            ),
            device,
        )  # fmt: skip
        return self.model

    def step(self, number):
        import decoder

        draw = random.Random(self.args.seed * 1_000_003 + number)
        with decoder.fast_attention(self.device):
            loss, items = (
                self._packed(draw, number) if self.args.packed else self._row(draw, number)
            )
            return harness.Step(decoder.update(loss, self.optimizer), items)

    def _row(self, draw, number):
        import decoder

        args = self.args
        length = draw.randint(args.shortest, args.longest)
        inputs, targets = decoder.make_batch(args, args.batch, length, number, self.device)
        return decoder.loss_of(self.model(inputs)[0], targets), inputs.numel()

    def _packed(self, draw, number):
        import decoder
        import packed

        lengths = draw_pack(self.args, draw)
        inputs, targets = decoder.make_batch(self.args, 1, sum(lengths), number, self.device)
        targets, positions = packed.separate(targets, lengths)
        way = self.args.attention or ("flash" if self.device.type == "cuda" else "loop")
        mix = packed.ATTENTION[way](lengths, self.device)
        return decoder.loss_of(self.model(inputs, positions, mix)[0], targets), inputs.numel()


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
