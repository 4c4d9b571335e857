#!/usr/bin/env python3
"""Fine-tunes a Llama with Hugging Face's Trainer, under a chosen GPU memory allocator.

The loop is the Trainer's own, as in most fine-tuning: sequences of varying length, padded to the
longest of their batch, bfloat16 autocast over float32 weights, gradient checkpointing, fused
AdamW, and an evaluation every few steps. Weights and tokens are random: nothing is downloaded.
With --lora the weights are frozen and small adapters beside them are trained (peft).

Deterministic like train_llama.py. Needs transformers and accelerate.

    python examples/train_hf.py --allocator stalloc
    python examples/train_hf.py --lora --boundary optimizer --allocator stalloc
    python examples/train_hf.py --tiny                         # seconds on a CPU
"""

import argparse
import os
import sys
import tempfile

import harness


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=12)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=8, help="sequences")
    group.add_argument("--shortest", type=harness.positive, default=200, metavar="TOKENS")
    group.add_argument("--longest", type=harness.positive, default=1800, metavar="TOKENS")
    group.add_argument("--eval-every", type=int, default=10, metavar="STEPS", help="0: never")
    group.add_argument(
        "--sequences", type=harness.positive, help="of a step, in batches; default: --batch"
    )
    group.add_argument(
        "--recompute", type=int, choices=(0, 1), default=1, help="gradient checkpointing"
    )
    group.add_argument(
        "--offload", nargs="*", choices=("states",), default=[],
        help="these leave for the host as far as memory is short",
    )  # fmt: skip
    group.add_argument("--lora", action="store_true", help="train adapters only; needs peft")
    group.add_argument("--rank", type=harness.positive, default=16, help="of the adapters")
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.vocabulary = 2, 64, 2, 256
        args.batch, args.shortest, args.longest = min(args.batch, 4), 8, 32
        args.rank = min(args.rank, 4)
    args.heads = args.heads or max(1, args.width // 128)
    args.sequences = args.sequences or args.batch
    if args.sequences % args.batch:
        parser.error(f"--sequences {args.sequences} is no multiple of --batch {args.batch}")
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    if args.shortest > args.longest:
        parser.error(f"want --shortest ({args.shortest}) <= --longest ({args.longest})")
    if args.eval_every < 0:
        parser.error(f"--eval-every {args.eval_every}: want a number of steps, or 0 for never")
    absent = harness.missing("transformers", "accelerate", *(["peft"] if args.lora else []))
    if absent:
        parser.error(absent)
    return args


class Sequences:
    """Random tokens, of lengths that are equally likely: what a data set gives its loader."""

    def __init__(self, args, count, seed):
        self.args, self.count, self.seed = args, count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        import torch

        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + place)
        low, high = self.args.shortest, self.args.longest + 1
        length = int(torch.randint(low, high, (), generator=generator))
        return torch.randint(self.args.vocabulary, (length,), generator=generator)


def pad(sequences):
    """A batch as a language model takes it, every row as long as the longest."""
    from torch.nn.utils.rnn import pad_sequence

    tokens = pad_sequence(sequences, batch_first=True, padding_value=0)
    labels = pad_sequence(sequences, batch_first=True, padding_value=-100)
    return {"input_ids": tokens, "attention_mask": (labels >= 0).long(), "labels": labels}


class Example(harness.Example):
    @staticmethod
    def imports():
        import accelerate  # noqa: F401
        import torch._dynamo  # noqa: F401, or the first optimizer does, for seconds
        import transformers.models.llama.modeling_llama
        import transformers.trainer  # noqa: F401

    def setup(self, device):
        import torch
        import transformers

        args, self.device = self.args, device
        config = transformers.LlamaConfig(
            num_hidden_layers=args.layers,
            hidden_size=args.width,
            intermediate_size=11 * args.width // 4,
            num_attention_heads=args.heads,
            vocab_size=args.vocabulary,
            max_position_embeddings=args.longest,
            use_cache=False,
        )
        with torch.device(device):
            self.model = transformers.LlamaForCausalLM(config)
        if args.lora:
            import peft

            settings = peft.LoraConfig(
                r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear"
            )
            self.model = peft.get_peft_model(self.model, settings)
        return self.model

    def train(self, loop):
        with tempfile.TemporaryDirectory() as folder:
            on_cpu = self.device.type == "cpu"
            self.trainer = make_trainer(self.args, self.model, loop, folder, on_cpu)
            self.trainer.train()

    def step(self, number):
        """A step like the Trainer's, after its own: to be profiled."""
        args = self.args
        drawn = Sequences(args, args.sequences, args.seed + number)
        for first in range(0, args.sequences, args.batch):
            batch = pad([drawn[place] for place in range(first, first + args.batch)])
            batch = {name: values.to(self.device) for name, values in batch.items()}
            self.trainer.training_step(self.model, batch)
        self.trainer.optimizer.step()
        self.trainer.optimizer.zero_grad()


def make_trainer(args, model, loop, folder, on_cpu):
    """A Trainer that tells the loop of its steps. An evaluation belongs to the step before it."""
    import transformers

    class Trainer(transformers.Trainer):
        items, loss = 0, 0.0  # of a step

        def training_step(self, model, inputs, *rest, **more):
            self.items += inputs["input_ids"].numel()
            loss = super().training_step(model, inputs, *rest, **more)
            self.loss += loss
            return loss

    class Steps(transformers.TrainerCallback):
        def on_train_begin(self, *_, optimizer=None, **__):
            if args.offload:
                harness.package().offload(optimizer)
            loop.begin()

        def on_step_end(self, arguments, state, control, **_):
            if not control.should_evaluate:
                self.end("train")

        def on_evaluate(self, arguments, state, control, metrics, **_):
            self.end("train+eval", metrics["eval_loss"])

        def end(self, phase, evaluation=None):
            loop.end(harness.Step(trainer.loss, trainer.items, phase, evaluation))
            trainer.items, trainer.loss = 0, 0.0
            loop.begin()  # the loader fetches the next batch before the Trainer begins its step

    settings = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=args.steps,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        gradient_accumulation_steps=args.sequences // args.batch,
        eval_strategy="steps" if args.eval_every else "no",
        eval_steps=args.eval_every or None,
        prediction_loss_only=True,
        bf16=True,
        gradient_checkpointing=bool(args.recompute),
        gradient_checkpointing_kwargs={"use_reentrant": False},
        optim="adamw_torch_fused",
        learning_rate=3e-4 if args.lora else 3e-5,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=args.seed,
        use_cpu=on_cpu,
    )
    trainer = Trainer(
        model=model,
        args=settings,
        data_collator=pad,
        train_dataset=Sequences(args, args.steps * args.sequences, args.seed),
        eval_dataset=Sequences(args, 4 * args.batch, args.seed + 1),
        callbacks=[Steps()],
    )
    return trainer


def main(argv=None):
    args = parse_arguments(argv)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # on more the Trainer splits its batches
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
