#!/usr/bin/env python3
"""Generates text with transformers' generate(), under a chosen GPU memory allocator.

As a policy does between the updates of reinforcement learning: prompts of varying length are gone
on with token by token, each drawn at random, and what layers keep of the tokens so far (the cache
of keys and values) is made anew for each, a little larger. Small kernels and many requests: the
host bounds it. A step is one batch of prompts. Weights are random: nothing is downloaded.

Nothing is trained. What was written is the step's "loss", and its sum is a weight of the model: two
runs wrote the same where these agree. Needs transformers.

    python examples/generate.py --allocator stalloc
    python examples/generate.py --tiny                         # seconds on a CPU
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
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=64, help="prompts")
    group.add_argument("--longest", type=harness.positive, default=1024, help="tokens of a prompt")
    group.add_argument("--tokens", type=harness.positive, default=48, help="written to each, most")
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.vocabulary = 2, 128, 256
        args.batch, args.longest, args.tokens = 2, min(args.longest, 16), min(args.tokens, 8)
    if args.width % 128:
        parser.error(f"--width {args.width} must be a multiple of 128")
    if absent := harness.missing("transformers"):
        parser.error(absent)
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import decoder  # noqa: F401
        import transformers.models.llama.modeling_llama  # noqa: F401

    def setup(self, device):
        import torch
        import transformers

        args, self.device = self.args, device
        config = transformers.LlamaConfig(
            vocab_size=args.vocabulary,
            hidden_size=args.width,
            intermediate_size=11 * args.width // 4,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 128,
            max_position_embeddings=args.longest + args.tokens,
            pad_token_id=0,
            eos_token_id=None,
        )
        with torch.device(device):
            self.model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
            self.model.written = torch.nn.Parameter(torch.zeros(()), requires_grad=False)
        return self.model

    def step(self, number):
        import decoder
        import torch

        args, draw = self.args, random.Random(self.args.seed * 1_000_003 + number)
        length = draw.randint(max(1, args.longest // 8), args.longest)
        prompts, _ = decoder.make_batch(args, args.batch, length, number, self.device)
        with torch.no_grad():
            text = self.model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                do_sample=True,
                max_new_tokens=draw.randint(max(1, args.tokens // 2), args.tokens),
            )
            places = torch.arange(text.numel(), device=self.device).view_as(text) % 1009
            loss = (text * places).sum().double().div(1 << 20).float()
            self.model.written += loss
        return harness.Step(loss, text.numel() - prompts.numel())


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
