"""Attention over several sequences that lie in one row, each seeing itself alone."""

from itertools import accumulate

import torch
from decoder import causal


def separate(targets, lengths):
    """Targets without those that belong to the next sequence, and positions within sequences."""
    targets = targets.clone()
    ends = torch.tensor(list(accumulate(lengths)), device=targets.device)
    targets[:, ends - 1] = -100
    positions = torch.cat([torch.arange(length) for length in lengths])
    return targets, positions.to(targets.device)


def flash(lengths, device):
    """One call of the variable-length flash kernel."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        raise SystemExit(
            f"--attention flash: PyTorch {torch.__version__} has no torch.nn.attention.varlen; "
            f"use --attention loop, or PyTorch 2.11"
        ) from None
    ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    longest = max(lengths)

    def mix(q, k, v):
        rows = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))
        # A window open to the left and closed to the right is causal attention.
        mixed = varlen_attn(*rows, ends, ends, longest, longest, window_size=(-1, 0))
        return mixed.transpose(0, 1).unsqueeze(0)

    return mix


def loop(lengths, device):
    """One call of the usual attention per sequence."""

    def mix(q, k, v):
        pieces = zip(*(x.split(lengths, dim=2) for x in (q, k, v)))
        return torch.cat([causal(*piece) for piece in pieces], dim=2)

    return mix


ATTENTION = {"flash": flash, "loop": loop}
