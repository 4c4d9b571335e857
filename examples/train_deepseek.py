#!/usr/bin/env python3
"""Trains transformers' DeepSeek-V3, smaller, under a chosen GPU memory allocator.

Latent attention, and experts of which each token takes some: transformers' own loop over them, one
after the other, whose sizes follow routing. Layers are recomputed, and a step is of two
microbatches. Many small kernels and tens of thousands of requests a step: the host bounds it.
Weights and tokens are random: nothing is downloaded.

Deterministic like train_llama.py. Needs transformers.

    python examples/train_deepseek.py --allocator stalloc
    python examples/train_deepseek.py --tiny                         # seconds on a CPU
"""

import argparse
import sys

import harness


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=8, help="the first is dense")
    group.add_argument("--width", type=harness.positive, default=1024)
    group.add_argument("--heads", type=harness.positive, default=16)
    group.add_argument("--experts", type=harness.positive, default=32)
    group.add_argument("--top", type=harness.positive, default=4, help="experts of a token")
    group.add_argument("--hidden", type=harness.positive, default=512, help="of an expert")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=8, help="sequences")
    group.add_argument("--seq", type=harness.positive, default=1024, help="tokens per sequence")
    group.add_argument("--accumulate", type=harness.positive, default=2, help="microbatches a step")
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.hidden, args.vocabulary = 2, 64, 2, 32, 256
        args.batch, args.seq = 2, min(args.seq, 32)
    if args.top > args.experts:
        parser.error(f"--top {args.top} is more than there are --experts ({args.experts})")
    if absent := harness.missing("transformers"):
        parser.error(absent)
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import decoder  # noqa: F401
        import transformers.models.deepseek_v3.modeling_deepseek_v3  # noqa: F401

    def setup(self, device):
        import decoder
        import transformers

        args, self.device = self.args, device
        head = args.width // args.heads
        config = transformers.DeepseekV3Config(
            vocab_size=args.vocabulary,
            hidden_size=args.width,
            intermediate_size=4 * args.width,
            moe_intermediate_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.heads,
            num_key_value_heads=args.heads,
            n_routed_experts=args.experts,
            num_experts_per_tok=args.top,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
            q_lora_rank=args.width // 2,
            kv_lora_rank=args.width // 4,
            qk_nope_head_dim=head,
            qk_rope_head_dim=head // 2,
            v_head_dim=head,
            max_position_embeddings=args.seq,
            use_cache=False,
            experts_implementation="eager",
        )

        def make():
            model = transformers.DeepseekV3ForCausalLM(config)
            model.gradient_checkpointing_enable({"use_reentrant": False})
            return model.train()

        self.model, self.optimizer = decoder.build(make, device)
        return self.model

    def step(self, number):
        import decoder

        args, total = self.args, 0
        for part in range(args.accumulate):
            place = number * args.accumulate + part
            inputs, _ = decoder.make_batch(args, args.batch, args.seq, place, self.device)
            loss = self.model(input_ids=inputs, labels=inputs).loss / args.accumulate
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return harness.Step(total, args.accumulate * args.batch * args.seq)


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
