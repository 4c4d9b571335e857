#!/usr/bin/env python3
"""Trains a Llama-like model on synthetic tokens under a chosen GPU memory allocator.

Plain PyTorch: RMSNorm, rotary positions, SwiGLU, scaled dot-product attention, AdamW, bfloat16
throughout. The default has about 1.3 billion weights. Everything is deterministic, so the same
options give the same losses, bit for bit, whatever the allocator.

    python examples/train_llama.py --allocator stalloc --json out.json
    python examples/train_llama.py --tiny          # seconds on a CPU
"""

import argparse
import dataclasses
import sys

import harness


@dataclasses.dataclass
class Config:
    layers: int
    width: int
    heads: int
    vocabulary: int
    recompute: bool

    @property
    def hidden(self):
        """SwiGLU's inner width: 8/3 of the model's, rounded up to 128 as Llama does."""
        return -(-8 * self.width // 3 // 128) * 128


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=24)
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--batch", type=harness.positive, default=8)
    group.add_argument("--seq", type=harness.positive, default=1024, help="tokens per sequence")
    group.add_argument(
        "--recompute", action="store_true", help="keep layer inputs only, recompute the rest"
    )
    group.add_argument(
        "--eval-every", type=harness.positive, metavar="N", help="evaluate after every Nth step"
    )
    group.add_argument("--eval-batch", type=harness.positive, help="default: twice --batch")
    group.add_argument(
        "--batch-change",
        type=_batch_change,
        metavar="STEP:BATCH",
        help="use another batch size from this step on (counted from 0)",
    )
    group.add_argument("--tiny", action="store_true", help="a model for a smoke test on the CPU")
    args = parser.parse_args(argv)
    if args.tiny:
        args.layers, args.width, args.heads, args.vocabulary = 2, 64, 2, 256
        args.batch, args.seq = min(args.batch, 4), min(args.seq, 32)
    args.heads = args.heads or max(1, args.width // 128)
    args.eval_batch = args.eval_batch or 2 * args.batch
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    return args


def _batch_change(text):
    try:
        step, batch = (int(part) for part in text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected STEP:BATCH, as in 15:4") from None
    if step < 0 or batch < 1:
        raise argparse.ArgumentTypeError(f"{text}: STEP must be 0 or more and BATCH positive")
    return step, batch


def build(config):
    """The model, its weights on the default device in the default dtype."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class RMSNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            wide = x.float()
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            return (wide * scale).to(x.dtype) * self.weight

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
            self.out = nn.Linear(config.width, config.width, bias=False)

        def forward(self, x, cos, sin):
            batch, length, width = x.shape
            shape = (batch, length, 3, config.heads, width // config.heads)
            q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(config.width, config.hidden, bias=False)
            self.up = nn.Linear(config.width, config.hidden, bias=False)
            self.down = nn.Linear(config.hidden, config.width, bias=False)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.attention = RMSNorm(config.width), Attention()
            self.feed_norm, self.feed = RMSNorm(config.width), FeedForward()

        def forward(self, x, cos, sin):
            x = x + self.attention(self.attention_norm(x), cos, sin)
            return x + self.feed(self.feed_norm(x))

    def rotate(x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(config.vocabulary, config.width)
            self.blocks = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm = RMSNorm(config.width)
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)
            for weight in self.parameters():
                if weight.dim() > 1:
                    nn.init.normal_(weight, std=0.02)

        def forward(self, tokens):
            x = self.embedding(tokens)
            cos, sin = self._angles(tokens.shape[1], x)
            for block in self.blocks:
                if config.recompute and torch.is_grad_enabled():
                    x = checkpoint(block, x, cos, sin, use_reentrant=False)
                else:
                    x = block(x, cos, sin)
            return self.head(self.norm(x))

        def _angles(self, length, like):
            half = config.width // config.heads // 2
            steps = torch.arange(half, device=like.device, dtype=torch.float32) / half
            places = torch.arange(length, device=like.device, dtype=torch.float32)
            angles = torch.outer(places, 10000.0**-steps)
            return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    return Llama()


def make_batch(args, batch, number, device):
    """Batch `number`, the same in every run: random tokens, the next token as the target."""
    import torch

    generator = torch.Generator().manual_seed(args.seed * 1_000_003 + number)
    tokens = torch.randint(args.vocabulary, (batch, args.seq + 1), generator=generator)
    tokens = tokens.to(device)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, inputs, targets):
    import torch.nn.functional as F

    logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def evaluate(model, args, number, device):
    import torch

    with torch.no_grad():
        return loss_of(model, *make_batch(args, args.eval_batch, -1 - number, device)).item()


def train_step(model, optimizer, args, batch, number, device):
    loss = loss_of(model, *make_batch(args, batch, number, device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def train(args, stalloc):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    on_gpu = torch.cuda.is_available()
    if not on_gpu and not args.tiny:
        raise SystemExit("no GPU here: add --tiny for a smoke test on the CPU")
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    # The flash kernel has a deterministic backward pass, but only half precisions and no CPU.
    attention = SDPBackend.FLASH_ATTENTION if on_gpu else SDPBackend.MATH

    recorder = harness.Recorder(args, device, stalloc)
    step = -1
    model = None
    try:
        torch.set_default_dtype(torch.bfloat16 if on_gpu else torch.float32)
        with torch.device(device):
            model = build(
                Config(args.layers, args.width, args.heads, args.vocabulary, args.recompute)
            )
        torch.set_default_dtype(torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
        recorder.setup_done()
        batch, phase = args.batch, "train"
        for step in range(args.steps):
            if args.batch_change and step == args.batch_change[0]:
                batch = args.batch_change[1]
                phase = f"batch {batch}"
            due = bool(args.eval_every) and (step + 1) % args.eval_every == 0
            recorder.begin()
            with sdpa_kernel(attention):
                loss = train_step(model, optimizer, args, batch, step, device)
                evaluation = evaluate(model, args, step, device) if due else None
            if stalloc is not None and args.boundary == "explicit":
                stalloc.step()
            recorder.end(step, phase + "+eval" if due else phase, loss.item())
            if evaluation is not None:
                recorder.steps[-1].update(
                    evaluation=evaluation, evaluation_bits=harness.bits(evaluation)
                )
    except RuntimeError as error:  # torch.OutOfMemoryError is one, stalloc's is a plain one
        if "out of memory" not in str(error):
            raise
        recorder.out_of_memory(step, error)
        recorder.report()
        return harness.EXIT_OUT_OF_MEMORY
    weights = sum(parameter.numel() for parameter in model.parameters())
    recorder.report(parameters=weights, checksum=harness.checksum(model))
    return 0


def main(argv=None):
    args = parse_arguments(argv)
    stalloc = harness.choose_allocator(args.allocator)
    harness.make_deterministic(args.seed)
    return train(args, stalloc)


if __name__ == "__main__":
    sys.exit(main())
