"""Keeping torch.backends.cudnn.benchmark off.

Under a pluggable allocator a plain convolution fails in cuDNN's benchmark mode: PyTorch queries
the largest free block, which its pluggable allocator does not implement. A slower convolution is
better than a dead run, so the switch stays off, with a warning.
"""

import warnings
from types import ModuleType
from typing import Any, Callable

from ._errors import StallocWarning


def guard(torch: ModuleType) -> None:
    """Turns the benchmark mode off and turns later attempts to set it into a warning."""
    low = torch._C
    if not hasattr(low, "_set_cudnn_benchmark"):
        return
    set_original: Callable[[bool], None] = low._set_cudnn_benchmark

    def set_benchmark(value: bool) -> None:
        if value:
            warnings.warn(
                "stalloc: torch.backends.cudnn.benchmark stays off, since convolutions fail "
                "with it under any pluggable allocator in PyTorch",
                StallocWarning,
                stacklevel=3,
            )
        set_original(False)

    if low._get_cudnn_benchmark():
        set_benchmark(True)
    low._set_cudnn_benchmark = set_benchmark
    # torch.backends.cudnn is an object of a class whose property kept the original setter.
    prop: Any = vars(type(torch.backends.cudnn)).get("benchmark")
    if hasattr(prop, "setter"):
        prop.setter = set_benchmark
