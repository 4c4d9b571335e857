"""The model that offload.py trains, its data, and how a way to train it is timed.

Llama-like: 24 layers of 2048, 5504 inner, vocabulary 32,000, 1.34 billion parameters; fp32 weights
under bf16 autocast, fused AdamW. With torch.use_deterministic_algorithms() each way has the same
bits. Imports torch, so import it after the allocator is chosen.
"""

import contextlib
import gc
import math
import time

import host
import measure
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

GIB = 1 << 30
HEAD = 128


class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        shape = (*x.shape[:2], 3, -1, min(HEAD, x.shape[2]))
        q, k, v = self.qkv(self.first(x)).view(shape).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """Returns the loss of a batch. Of every `recompute`-th layer only the input is saved: 1 is full
    recomputation, 2 that of every second layer, 0 none."""

    def __init__(self, layers, width, inner, vocabulary):
        super().__init__()
        self.recompute = 0
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for place, block in enumerate(self.blocks):
            again = self.recompute and place % self.recompute == 0
            x = checkpoint(block, x, use_reentrant=False) if again else block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def build(args, device):
    """A model and its optimizer, the same each time."""
    torch.manual_seed(1)
    with torch.device(device):
        model = Model(*args.shape)
    fused = device.type == "cuda"
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)


def step(
    args, model, optimizer, number, device, around, lengths=None, whole=contextlib.nullcontext
):
    """Trains on the batches of a step; each forward pass is within a context of around(), and with
    its backward pass within one of whole().

    `lengths` are those of each batch's sequences, if they are not all args.length.
    """
    generator = torch.Generator().manual_seed(number)
    losses = []
    for length in lengths or [args.length] * args.accumulate:
        tokens = torch.randint(args.shape[3], (args.batch, length), generator=generator)
        tokens = tokens.to(device)
        with whole():
            with around(), torch.autocast(device.type, torch.bfloat16):
                loss = model(tokens) / args.accumulate
            loss.backward()
        losses.append(loss.detach())
        del loss
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return losses


def timed(
    args, device, around=contextlib.nullcontext, whole=None, recompute=0, steps=5,
    ready=lambda number: number >= 2,
):  # fmt: skip
    """Trains until a way is ready, then so many steps whose time counts; returns what was seen.

    whole(model) returns what step() takes as `whole`.
    """
    model, optimizer = build(args, device)
    model.recompute = recompute
    whole = whole(model) if whole else contextlib.nullcontext
    losses, number = [], 0
    while not ready(number):
        losses += step(args, model, optimizer, number, device, around, whole=whole)
        synchronize(device)
        number += 1
    restart_peaks(device)
    begun = time.perf_counter()
    for later in range(steps):
        losses += step(args, model, optimizer, number + later, device, around, whole=whole)
    synchronize(device)
    seconds = (time.perf_counter() - begun) / steps
    losses = [float(loss) for loss in losses]
    wrong = "" if all(map(math.isfinite, losses)) else "a loss is not finite"
    row = {
        "host_us": host.speed_us(),
        "tokens/s": args.batch * args.accumulate * args.length / seconds,
        "live": peak(device, "allocated"),
        "held": peak(device, "reserved"),
        "losses": losses,
        "checksum": measure.checksum(model),
        "wrong": wrong or measure.not_finite([], model),
    }
    del model, optimizer, whole
    return row


def forget(device):
    """Gives back what the last way has left."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def restart_peaks(device):
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak(device, what):
    return getattr(torch.cuda, f"max_memory_{what}")() if device.type == "cuda" else 0
