"""Mixture-of-experts layers for decoder.Decoder: request sizes follow the routing.

Two ways of bringing tokens to their experts, both in use today:

    loop    for each expert in turn: which tokens chose it, gather them, add its output to
            theirs (the eager code of Mixtral and Qwen-MoE in Hugging Face transformers)
    sort    sort all (token, choice) pairs by expert, once, and cut the rows into one piece
            per expert (as in fine-grained mixtures, where the loop's searches would dominate)

Under torch.use_deterministic_algorithms(True) all of it is deterministic: index_add_ and the
backward passes of gather and index_select then sort their indices instead of adding atomically.
Experts are counted by comparing and summing, since bincount and one_hot wait for the device.
"""

import torch
import torch.nn.functional as F
from decoder import SwiGLU
from torch import nn


class Router(nn.Module):
    """Sends each token to its `top` best experts."""

    def __init__(self, width, experts, top):
        super().__init__()
        self.experts, self.top = experts, top
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        """Per token: the experts chosen and their weights. And per expert: how many chose it;
        and the loss that keeps the experts equally busy (Switch Transformer's)."""
        likely = F.softmax(self.gate(x).float(), dim=-1)
        chosen = likely.detach().topk(self.top, dim=-1).indices
        weights = likely.gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        numbers = torch.arange(self.experts, device=x.device)
        counts = (chosen.unsqueeze(-1) == numbers).sum((0, 1))
        balance = (likely.mean(0) * counts).sum() * (self.experts / chosen.numel())
        return chosen, weights.to(x.dtype), counts, balance


class Mixture(nn.Module):
    """Experts, and with `shared` > 0 one more of that inner width that sees every token."""

    def __init__(self, width, hidden, experts, top, shared, dispatch):
        super().__init__()
        self.router = Router(width, experts, top)
        self.experts = nn.ModuleList(SwiGLU(width, hidden) for _ in range(experts))
        self.shared = SwiGLU(width, shared) if shared else None
        self.dispatch = {"loop": self._loop, "sort": self._sort}[dispatch]

    def forward(self, x):
        flat = x.flatten(0, 1)
        chosen, weights, counts, balance = self.router(flat)
        out = self.dispatch(flat, chosen, weights, counts)
        if self.shared is not None:
            out = out + self.shared(flat)
        return out.view_as(x), 0.01 * balance

    def _loop(self, flat, chosen, weights, counts):
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            if token.numel():
                part = expert(flat.index_select(0, token)) * weights[token, place, None]
                out.index_add_(0, token, part)
        return out

    def _sort(self, flat, chosen, weights, counts):
        tokens, top = chosen.shape
        order = chosen.flatten().argsort(stable=True)
        pieces = flat.index_select(0, order // top).split(counts.tolist())
        parts = [expert(piece) for expert, piece in zip(self.experts, pieces) if len(piece)]
        back = torch.cat(parts).index_select(0, order.argsort())
        return (back.view(tokens, top, -1) * weights.unsqueeze(-1)).sum(1)
