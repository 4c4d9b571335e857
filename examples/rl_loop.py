#!/usr/bin/env python3
"""Trains a small language model by reinforcement, with generation in a process beside it on a GPU.

While the other process generates, the trainer's memory sleeps: gradients, optimizer states and
free memory. Only the weights stay awake, since both processes have them where they lie. So there
is nothing to copy when they change. Weights and prompts are random, nothing is downloaded; the
reward is the share of tokens below a limit. Needs transformers and a GPU.

    python examples/rl_loop.py --steps 20
"""

import argparse
import queue
import sys
import time

import harness
import measure
import stalloc

VOCABULARY, PROMPT, LOW = 8192, 8, 1024  # tokens below LOW are what is wanted
GIB = 1 << 30


def build(args):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=PROMPT + args.tokens, n_layer=args.layers,
        n_embd=64 * args.heads, n_head=args.heads, bos_token_id=0, eos_token_id=VOCABULARY - 1,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def generate(args, inbox, outbox):
    """The other process: gets the weights once, then prompts, and sends what the model adds."""
    stalloc.enable(share="fd")  # before the weights arrive
    import torch

    model = build(args).eval()
    weights = inbox.get()
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    model.to(args.device)  # what is left: buffers
    torch.manual_seed(1)
    outbox.put("ready")
    while (prompts := inbox.get()) is not None:
        with torch.no_grad():
            text = model.generate(
                torch.tensor(prompts, device=args.device), do_sample=True, pad_token_id=0,
                max_new_tokens=args.tokens, min_new_tokens=args.tokens,
            )  # fmt: skip
        outbox.put((text.tolist(), torch.cuda.mem_get_info()[0] if args.device == "cuda" else 0))
        del text
        torch.cuda.empty_cache()  # the trainer's again
    del weights, model


class Generator:
    """The other process, as the trainer sees it."""

    def __init__(self, torch, args, model):
        context = torch.multiprocessing.get_context("spawn")
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.process = context.Process(target=generate, args=(args, self.inbox, self.outbox))
        self.process.daemon = True
        self.process.start()
        if args.device == "cuda":
            torch.cuda.synchronize()
        self.inbox.put({name: p.detach() for name, p in model.named_parameters()})
        self.answer()  # a queue sends on a thread of its own: pause() must not come before it

    def answer(self):
        while True:
            try:
                return self.outbox.get(timeout=5)
            except queue.Empty:
                if not self.process.is_alive():
                    sys.exit("the process that generates has ended: its error is above")

    def add_to(self, prompts, sleep=True):
        """Prompts with what the model adds to them, while this process's memory sleeps."""
        begin = time.perf_counter()
        # Pausing waits for all work, so the weights are as they should be.
        asleep = stalloc.pause() if sleep else 0
        paused = time.perf_counter()
        self.inbox.put(prompts)
        text, free = self.answer()
        generated = time.perf_counter()
        stalloc.resume()
        woken = time.perf_counter()
        self.words = (
            f"{asleep / GIB:.2f} GiB slept, {free / GIB:.2f} GiB were free; {paused - begin:.2f} s "
            f"to sleep, {generated - paused:.2f} s to generate, {woken - generated:.2f} s to wake"
        )
        return text

    def end(self):
        self.inbox.put(None)
        self.process.join(60)


def step(torch, model, optimizer, text, baseline):
    """One step of REINFORCE; returns the mean reward."""
    following = text[:, 1:]
    log = model(text[:, :-1]).logits.float().log_softmax(-1)
    chosen = log.gather(-1, following.unsqueeze(-1)).squeeze(-1)[:, PROMPT - 1 :]
    reward = (following[:, PROMPT - 1 :] < LOW).float().mean(1)
    loss = -((reward - baseline).unsqueeze(1) * chosen).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stalloc.step()
    return reward.mean().item()


def train(torch, args):
    torch.manual_seed(0)
    model = build(args).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    generator, baseline = Generator(torch, args, model), 0.0
    for number in range(args.steps):
        prompts = torch.randint(VOCABULARY, (args.prompts, PROMPT)).tolist()
        text = torch.tensor(generator.add_to(prompts), device=args.device)
        reward = step(torch, model, optimizer, text, baseline)
        baseline = 0.9 * baseline + 0.1 * reward if number else reward
        print(f"step {number}: reward {reward:.3f}; {generator.words}", flush=True)
    generator.end()
    measure.require_sound(model)


def add_arguments(parser):
    parser.add_argument("--steps", type=harness.positive, default=20)
    parser.add_argument("--layers", type=harness.positive, default=12)
    parser.add_argument("--heads", type=harness.positive, default=12, help="of 64 numbers each")
    parser.add_argument("--prompts", type=harness.positive, default=64, help="in a batch")
    parser.add_argument("--tokens", type=harness.positive, default=120, help="to add to a prompt")
    parser.add_argument("--rate", type=float, default=1e-4, help="of learning")
    parser.add_argument("--tiny", action="store_true", help="seconds on a CPU, to try it out")


def parse(parser, argv, *needed):
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.heads, args.tokens, args.steps = 2, 1, 8, min(args.steps, 3)
        args.prompts = min(args.prompts, 8)
    absent = harness.missing("torch", "transformers", *needed)
    if absent:
        parser.error(absent)
    args.device = "cuda" if stalloc.enable(share="fd") else "cpu"
    if args.device == "cpu" and not args.tiny:
        parser.error("needs a GPU and a PyTorch with CUDA: stalloc doctor says what is missing")
    return args


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    return parse(parser, argv)


def main(argv=None):
    args = parse_arguments(argv)
    import torch

    train(torch, args)
    print(stalloc.stats())


if __name__ == "__main__":
    main()
