"""A kernel in Triton, for feature_rows.py: Triton reads a kernel's source from its file."""

import torch
import triton
import triton.language as tl


@triton.jit
def _double(x, y, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def doubled(x):
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), SIZE=256)
    return y
