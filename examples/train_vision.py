#!/usr/bin/env python3
"""Trains an image classifier on images of several scales, under a chosen GPU memory allocator.

Every step draws the side of its images from --sides, as multi-scale training does: requests
come in the same order with sizes that go with the square of the side. Weights are float32, the
arithmetic bfloat16 under autocast. vision.py says how it stays deterministic.

    python examples/train_vision.py --model vit --allocator stalloc
    python examples/train_vision.py --tiny                     # seconds on a CPU
"""

import argparse
import random
import sys

import harness

SIDES = [160, 192, 224, 256, 288, 320]


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--model", choices=("resnet", "vit"), default="resnet", help="50, B/16")
    group.add_argument("--batch", type=harness.positive, default=96, help="images")
    group.add_argument("--sides", type=harness.positive, nargs="+", default=SIDES, metavar="PIXELS")
    group.add_argument("--classes", type=harness.positive, default=1000)
    args = parser.parse_args(argv)
    if args.tiny:
        args.batch, args.sides, args.classes = min(args.batch, 4), [32, 48], 10
    if args.model == "vit" and any(side % 16 for side in args.sides):
        parser.error(f"--sides {args.sides}: ViT's patches have 16 pixels; use multiples of 16")
    return args


class Example(harness.Example):
    name = "images"

    def setup(self, device):
        import torch
        import vision

        args, self.device = self.args, device
        with torch.device(device):
            if args.model == "resnet":
                sizes = ((1, 1), 8) if args.tiny else ((3, 4, 6, 3), 64)
                model = vision.ResNet(*sizes, args.classes).to(memory_format=torch.channels_last)
            else:
                sizes = (2, 64, 2) if args.tiny else (12, 768, 12)
                model = vision.ViT(*sizes, args.classes)
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4
        )
        self.model = model
        return model

    def step(self, number):
        import decoder
        import torch
        import torch.nn.functional as F

        side = random.Random(self.args.seed * 1_000_003 + number).choice(self.args.sides)
        images, labels = self._batch(side, number)
        with decoder.fast_attention(self.device):
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                scores = self.model(images)
            loss = F.cross_entropy(scores.float(), labels)
            return harness.Step(decoder.update(loss, self.optimizer), self.args.batch)

    def _batch(self, side, number):
        """Random images, made on the device: no step waits for the host."""
        import torch

        generator = torch.Generator(self.device).manual_seed(self.args.seed * 1_000_003 + number)
        options = {"device": self.device, "generator": generator}
        images = torch.randn((self.args.batch, 3, side, side), **options)
        labels = torch.randint(self.args.classes, (self.args.batch,), **options)
        if self.args.model == "resnet":
            images = images.to(memory_format=torch.channels_last)
        return images, labels


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
