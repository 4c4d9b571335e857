"""The decoder-only language model that the examples vary, and its random data.

Plain PyTorch: RMSNorm, rotary positions, scaled dot-product attention, and a feed-forward part
that the caller chooses (SwiGLU for Llama, experts for a mixture). Imports torch, so it must be
imported after the allocator is chosen.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


def fast_attention(device):
    """A context in which attention takes the kernel of choice for the device.

    The flash kernel has a deterministic backward pass, but only half precisions and no CPU.
    """
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION if device.type == "cuda" else SDPBackend.MATH)


def causal(q, k, v):
    """Attention over sequences of one length: q, k, v are (batch, heads, length, head width)."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin, mix):
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        mixed = mix(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads, feed):
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(width), Attention(width, heads)
        self.feed_norm, self.feed = RMSNorm(width), feed

    def forward(self, x, cos, sin, mix):
        x = x + self.attention(self.attention_norm(x), cos, sin, mix)
        fed = self.feed(self.feed_norm(x))
        fed, balance = fed if isinstance(fed, tuple) else (fed, None)
        return x + fed, balance


class Decoder(nn.Module):
    """`feed()` makes the feed-forward part of a layer.

    The part returns its output, or with it a loss of its own to be added to the model's. With
    `recompute`, only the layers' inputs are kept for the backward pass.
    """

    def __init__(self, layers, width, heads, vocabulary, feed, recompute=False):
        super().__init__()
        self.half, self.recompute = width // heads // 2, recompute
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, feed()) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens, positions=None, mix=causal):
        """Logits of every token, and the sum of the layers' own losses (0 without any).

        `positions` count from 0 within each sequence.
        """
        x, extra = self.embedding(tokens), 0
        cos, sin = self._angles(tokens.shape[1], positions, x)
        for block in self.blocks:
            if self.recompute and torch.is_grad_enabled():
                x, balance = checkpoint(block, x, cos, sin, mix, use_reentrant=False)
            else:
                x, balance = block(x, cos, sin, mix)
            extra = extra if balance is None else extra + balance
        return self.head(self.norm(x)), extra

    def _angles(self, length, positions, like):
        if positions is None:
            positions = torch.arange(length, device=like.device)
        steps = torch.arange(self.half, device=like.device, dtype=torch.float32) / self.half
        angles = torch.outer(positions.float(), 10000.0**-steps)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def build(make, device):
    """A model made by `make` on the device, in bfloat16 on a GPU, and its optimizer."""
    torch.set_default_dtype(torch.bfloat16 if device.type == "cuda" else torch.float32)
    try:
        with torch.device(device):
            model = make()
    finally:
        torch.set_default_dtype(torch.float32)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)


def make_batch(args, batch, length, number, device):
    """Batch `number`, the same in every run: random tokens, the next token as the target."""
    generator = torch.Generator().manual_seed(args.seed * 1_000_003 + number)
    tokens = torch.randint(args.vocabulary, (batch, length + 1), generator=generator)
    tokens = tokens.to(device)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(logits, targets):
    """Targets below 0 do not count."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)


def update(loss, optimizer):
    """Backward pass and optimizer step; leaves no gradients behind."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()
