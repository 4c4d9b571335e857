#!/usr/bin/env python3
"""Fine-tunes OPT-1.3B with adapters, recomputation and sharded weights, as in GMLake's evaluation.

Hugging Face's OPT with random weights, peft's LoRA, gradient checkpointing, and FSDP2 where GMLake
(ASPLOS 2024) had DeepSpeed's ZeRO-3: weights exist whole only while their layer runs. One process a
GPU; with a single one the collective calls are there all the same.

    python examples/train_opt.py --allocator stalloc
    torchrun --nproc-per-node 2 examples/train_opt.py --allocator stalloc
"""

import argparse
import sys

import harness
import ranks
import train_fsdp


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=24)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--vocabulary", type=harness.positive, default=50272)
    group.add_argument("--batch", type=harness.positive, default=40, help="sequences a GPU")
    group.add_argument("--shortest", type=harness.positive, default=64, metavar="TOKENS")
    group.add_argument("--longest", type=harness.positive, default=512, metavar="TOKENS")
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.vocabulary = 2, 64, 256
        args.batch, args.shortest, args.longest = min(args.batch, 2), 8, 32
    if args.shortest > args.longest:
        parser.error(f"want --shortest ({args.shortest}) <= --longest ({args.longest})")
    absent = harness.missing("transformers", "peft")
    if absent:
        parser.error(absent)
    return args


class Example(harness.Example):
    @staticmethod
    def imports():
        import decoder  # noqa: F401
        import peft  # noqa: F401
        import torch.distributed.fsdp  # noqa: F401
        import transformers.models.opt.modeling_opt  # noqa: F401

    def setup(self, device):
        import peft
        import torch
        import transformers
        from torch.distributed.fsdp import fully_shard

        args, self.device = self.args, device
        ranks.join(device)
        config = transformers.OPTConfig(
            num_hidden_layers=args.layers, hidden_size=args.width, ffn_dim=4 * args.width,
            num_attention_heads=max(1, args.width // 64), vocab_size=args.vocabulary,
            word_embed_proj_dim=args.width, dropout=0.0, use_cache=False,
        )  # fmt: skip
        with torch.device(device):
            model = transformers.OPTForCausalLM(config)
        model = model.to(torch.bfloat16 if device.type == "cuda" else torch.float32)
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
        layers = model.model.decoder.layers
        adapters = peft.LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])
        self.model = peft.get_peft_model(model, adapters, autocast_adapter_dtype=False)
        for layer in layers:
            fully_shard(layer)
        fully_shard(self.model)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-4)
        return self.model

    def step(self, number):
        import decoder

        args = self.args
        length = train_fsdp.length_of(args, number)
        tokens, _ = decoder.make_batch(args, args.batch, length, number, self.device)
        loss = self.model(input_ids=tokens, labels=tokens).loss
        return harness.Step(decoder.update(loss, self.optimizer), tokens.numel())


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
