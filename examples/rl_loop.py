#!/usr/bin/env python3
"""Trains a small language model by reinforcement, with generation in a process beside it on a GPU.

While the other process generates, the trainer's memory sleeps: gradients, optimizer states and
free memory. Only the weights stay awake, since both processes have them where they lie. So there
is nothing to copy when they change. Weights and prompts are random, nothing is downloaded; the
reward is the share of tokens below a limit. Needs transformers and a GPU.

    python examples/rl_loop.py --steps 20
"""

import argparse
import sys
import time

import harness
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
    model.cuda()  # what is left: buffers
    outbox.put("ready")
    while (prompts := inbox.get()) is not None:
        with torch.no_grad():
            text = model.generate(
                torch.tensor(prompts, device="cuda"), do_sample=True, max_new_tokens=args.tokens,
                min_new_tokens=args.tokens, pad_token_id=0,
            )  # fmt: skip
        outbox.put((text.tolist(), torch.cuda.mem_get_info()[0]))
        del text
        torch.cuda.empty_cache()  # the trainer's again
    del weights, model


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


def train(torch, args, inbox, outbox):
    model = build(args).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    torch.cuda.synchronize()
    inbox.put({name: p.detach() for name, p in model.named_parameters()})
    outbox.get(timeout=600)  # a queue sends on a thread of its own: pause() must not come before it
    baseline = 0.0
    for number in range(args.steps):
        prompts = torch.randint(VOCABULARY, (args.prompts, PROMPT)).tolist()
        begin = time.perf_counter()
        asleep = stalloc.pause()  # waits for all work, so the weights are as they should be
        paused = time.perf_counter()
        inbox.put(prompts)
        text, free = outbox.get(timeout=600)
        generated = time.perf_counter()
        stalloc.resume()
        woken = time.perf_counter()
        reward = step(torch, model, optimizer, torch.tensor(text, device="cuda"), baseline)
        baseline = 0.9 * baseline + 0.1 * reward if number else reward
        print(
            f"step {number}: reward {reward:.3f}; {asleep / GIB:.2f} GiB slept, "
            f"{free / GIB:.2f} GiB were free; {paused - begin:.2f} s to sleep, "
            f"{generated - paused:.2f} s to generate, {woken - generated:.2f} s to wake",
            flush=True,
        )


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12, help="of 64 numbers each")
    parser.add_argument("--prompts", type=int, default=64, help="in a batch")
    parser.add_argument("--tokens", type=int, default=120, help="to generate for each prompt")
    parser.add_argument("--rate", type=float, default=1e-4, help="of learning")
    args = parser.parse_args(arguments)
    if min(args.steps, args.layers, args.heads, args.prompts, args.tokens) < 1:
        parser.error("all numbers are to be 1 or more")
    absent = harness.missing("torch", "transformers")
    if absent:
        parser.error(absent)
    return args


def main():
    args = parse_arguments()
    if not stalloc.enable(share="fd"):
        sys.exit("needs a GPU and a PyTorch with CUDA: stalloc doctor says what is missing")
    import torch

    context = torch.multiprocessing.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    other = context.Process(target=generate, args=(args, inbox, outbox), daemon=True)
    other.start()
    try:
        train(torch, args, inbox, outbox)
    finally:
        inbox.put(None)
        other.join(60)
    print(stalloc.stats())


if __name__ == "__main__":
    main()
