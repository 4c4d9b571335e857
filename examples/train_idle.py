#!/usr/bin/env python3
"""Trains train_llama.py's model beside models that are idle for most of a step, and lend their
memory meanwhile.

    python examples/train_idle.py --idle reference ema --eval-every 4 --allocator stalloc

reference   a copy of the first weights: the loss has the divergence from what it predicts, as in
            reinforcement learning from preferences. It is only read, so it is copied to the host
            once.
ema         an average of the weights so far, changed after each step and evaluated.

Each lies in a region of its own and is used within stalloc.awake(). Without stalloc both stay on
the device. All other options are train_llama.py's; the losses are the same bits.
"""

import argparse
import copy
import sys

import harness
import train_llama

IDLE = ("reference", "ema")
KEPT, SHARE = 0.99, 0.1  # of the average at each step; of the divergence in the loss


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False
    )
    parser.add_argument("--idle", nargs="+", choices=IDLE, default=IDLE)
    own = harness.parse_known(parser, argv)
    args = train_llama.parse_arguments(own.rest)
    args.idle = own.idle
    return args


class Example(train_llama.Example):
    def setup(self, device):
        self.stalloc = harness.package()
        model = super().setup(device)
        for name in self.args.idle:
            with self.stalloc.region(name):
                setattr(self, name, copy.deepcopy(model).requires_grad_(False))
        return model

    def step(self, number):
        import torch

        done = super().step(number)
        if "ema" in self.args.idle:
            with self.stalloc.awake("ema"), torch.no_grad():
                averages, weights = self.ema.parameters(), self.model.parameters()
                torch._foreach_lerp_(list(averages), list(weights), 1 - KEPT)
        return done

    def loss(self, batch, number):
        import decoder
        import torch
        import torch.nn.functional as F

        inputs, targets = decoder.make_batch(self.args, batch, self.args.seq, number, self.device)
        logits = self.model(inputs)[0]
        loss = decoder.loss_of(logits, targets)
        if "reference" in self.args.idle:
            with self.stalloc.awake("reference", changed=False), torch.no_grad():
                expected = self.reference(inputs)[0].float().log_softmax(-1)
            given = logits.float().log_softmax(-1)
            divergence = F.kl_div(given, expected, log_target=True, reduction="none").sum(-1).mean()
            loss = loss + SHARE * divergence
        return loss

    def evaluate(self, number):
        """Of the average, if there is one."""
        if "ema" not in self.args.idle:
            return super().evaluate(number)
        trained = self.model
        with self.stalloc.awake("ema", changed=False):
            self.model = self.ema
            try:
                return super().evaluate(number)
            finally:
                self.model = trained


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
