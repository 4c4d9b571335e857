#!/usr/bin/env python3
"""Trains a small language model with TRL's GRPOTrainer, with generation in a process beside it.

As in rl_loop.py: while the other process generates with the weights where they lie, all else that
the trainer has sleeps. TRL takes generation from outside as its rollout_func. Weights, tokenizer
and prompts are made here, nothing is downloaded; the reward is the share of tokens below a limit.
With --awake nothing sleeps, to compare the losses. Needs trl.

    python examples/train_grpo.py --steps 20
    python examples/train_grpo.py --tiny      # seconds on a CPU, where nothing sleeps
"""

import argparse
import json
import os
import random
import tempfile

import harness
import ledger
import measure
import rl_loop
import stalloc
from rl_loop import LOW, PROMPT, VOCABULARY


def make_tokenizer():
    """Of words that are their tokens' numbers, but for the first token and the last."""
    import tokenizers
    import transformers

    words = {str(n): n for n in range(1, VOCABULARY - 1)} | {"<pad>": 0, "<end>": VOCABULARY - 1}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def make_prompts(args):
    import datasets

    numbers = random.Random(2)
    texts = [
        " ".join(str(numbers.randrange(1, VOCABULARY - 1)) for _ in range(PROMPT))
        for _ in range(args.steps * args.prompts)
    ]
    return datasets.Dataset.from_dict({"prompt": texts})


def reward(completion_ids, **_):
    return [sum(token < LOW for token in ids) / len(ids) for ids in completion_ids]


def make_trainer(torch, args, folder):
    import trl
    from stalloc.integrations.transformers import StallocCallback

    torch.manual_seed(0)
    model = rl_loop.build(args).to(args.device)
    generator = rl_loop.Generator(torch, args, model)

    def rollout(prompts, trainer):
        tokens = trainer.processing_class(prompts)["input_ids"]
        text = generator.add_to(tokens, sleep=not args.awake)
        print(f"step {trainer.state.global_step}: {generator.words}", flush=True)
        added = [row[PROMPT:] for row in text]
        return {"prompt_ids": tokens, "completion_ids": added, "logprobs": None}

    settings = trl.GRPOConfig(
        output_dir=folder,
        max_steps=args.steps,
        per_device_train_batch_size=args.prompts,
        num_generations=args.generations,
        max_completion_length=args.tokens,
        learning_rate=args.rate,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=args.device == "cpu",
    )
    trainer = trl.GRPOTrainer(
        model=model,
        args=settings,
        reward_funcs=reward,
        rollout_func=rollout,
        train_dataset=make_prompts(args),
        processing_class=make_tokenizer(),
        callbacks=[StallocCallback()],
    )
    return trainer, generator


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rl_loop.add_arguments(parser)
    parser.add_argument("--generations", type=harness.positive, default=8, help="of a prompt")
    parser.add_argument("--awake", action="store_true", help="nothing sleeps, for comparison")
    parser.add_argument("--json", type=ledger.file, metavar="FILE", help="what each step says")
    args = rl_loop.parse(parser, argv, "trl", "datasets")
    if args.generations < 2 or args.prompts % args.generations:
        parser.error(
            f"--generations {args.generations}: want 2 or more, and --prompts {args.prompts} a "
            "multiple of it"
        )
    return args


def main(argv=None):
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same losses in each run
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # on more the Trainer splits its batches
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    args = parse_arguments(argv)
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    with tempfile.TemporaryDirectory() as folder:
        trainer, generator = make_trainer(torch, args, folder)
        trainer.train()
    generator.end()
    steps = [
        {name: entry[name] for name in ("loss", "reward", "grad_norm")}
        for entry in trainer.state.log_history
        if "loss" in entry
    ]
    measure.require_sound(trainer.model, [step["loss"] for step in steps])
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"steps": steps, "stalloc": stalloc.stats().as_dict()}, file)
    print(stalloc.stats())


if __name__ == "__main__":
    main()
