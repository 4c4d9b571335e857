#!/usr/bin/env python3
"""Trains a language model with FSDP2 on sequences of varying length, one process a GPU.

Weights, gradients and the optimizer's state are sharded by PyTorch's fully_shard, layer by layer,
with bfloat16 for computing; each layer's whole weights exist while it runs, and what it keeps is
recomputed. With one process the collective calls are there all the same, with nobody to talk to;
--ranks makes it one of several beside fake others, which answer at once (ranks.py).

Deterministic like train_llama.py.

    python examples/train_fsdp.py --allocator stalloc
    python examples/train_fsdp.py --allocator stalloc --ranks 8 --accumulate 4
    torchrun --nproc-per-node 2 examples/train_fsdp.py --allocator stalloc
"""

import argparse
import sys

import harness
import ranks


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=16)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=8, help="sequences")
    group.add_argument("--shortest", type=harness.positive, default=256, metavar="TOKENS")
    group.add_argument("--longest", type=harness.positive, default=2048, metavar="TOKENS")
    group.add_argument("--accumulate", type=harness.positive, default=1, help="batches a step")
    ranks.add_argument(group)
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.vocabulary = 2, 64, 2, 256
        args.batch, args.shortest, args.longest = min(args.batch, 2), 8, 32
    args.heads = args.heads or max(1, args.width // 128)
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    if args.shortest > args.longest:
        parser.error(f"want --shortest ({args.shortest}) <= --longest ({args.longest})")
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import decoder  # noqa: F401
        import torch.distributed.fsdp  # noqa: F401

    def setup(self, device):
        import decoder
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        args, self.device = self.args, device
        ranks.join(device, args.ranks)
        with torch.device(device):
            self.model = decoder.Decoder(
                args.layers,
                args.width,
                args.heads,
                args.vocabulary,
                lambda: decoder.SwiGLU(args.width, -(-8 * args.width // 3 // 128) * 128),
                recompute=True,
            )
        half = torch.bfloat16 if device.type == "cuda" else torch.float32
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
        for block in self.model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(self.model, mp_policy=policy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, weight_decay=0.1)
        return self.model

    def step(self, number):
        import decoder

        args, losses, items = self.args, [], 0
        for batch in range(number * args.accumulate, (number + 1) * args.accumulate):
            length = length_of(args, batch)
            inputs, targets = decoder.make_batch(args, args.batch, length, batch, self.device)
            with decoder.fast_attention(self.device):
                loss = decoder.loss_of(self.model(inputs)[0], targets) / args.accumulate
                loss.backward()
            losses.append(loss.detach())
            items += inputs.numel()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return harness.Step(sum(losses), items)


def length_of(args, number):
    """A step's length: the same in every run, and on every rank, for ranks wait for each other."""
    import torch

    generator = torch.Generator().manual_seed(args.seed * 1_000_003 + number)
    return int(torch.randint(args.shortest, args.longest + 1, (), generator=generator)) // 8 * 8


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
