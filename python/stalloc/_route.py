"""The route into PyTorch: the adapter, or CUDAPluggableAllocator.

The adapter implements PyTorch's own interface: statistics, snapshots, graphs and private pools
work as with PyTorch's allocator, and it can be installed after CUDA has started. If there is no
adapter, stalloc uses the pluggable allocator, under which many functions of PyTorch do not work;
a line says so.
"""

import warnings
from types import ModuleType

from . import _adapter, _adapter_build, _library, _torch
from ._errors import StallocError, StallocWarning

SETTING = "route"
AUTO, ADAPTER, PLUGGABLE = "auto", "adapter", "pluggable"
DEFAULT = AUTO


def install(torch: ModuleType, library: _library.Library, wanted: str, stacklevel: int) -> str:
    """Makes stalloc the process's CUDA allocator; returns the chosen route."""
    if wanted != PLUGGABLE:
        try:
            _adapter.install(torch, library, _adapter_build.find(torch))
            return ADAPTER
        except (_adapter_build.Unavailable, OSError) as error:
            if wanted == ADAPTER:
                raise StallocError(f"stalloc: no adapter: {error}") from error
            _refuse_late(torch, error)
            warnings.warn(
                f"stalloc: PyTorch's pluggable allocator is used, without memory history, "
                f"MemPool, IPC and graph trees, because: {error}",
                StallocWarning,
                stacklevel=stacklevel,
            )
    _torch.check_unused(torch)
    _torch.install(torch, library)
    return PLUGGABLE


def _refuse_late(torch: ModuleType, why: Exception) -> None:
    """The error once CUDA has started: then only the adapter can be installed."""
    if torch.cuda.is_initialized():
        raise StallocError(
            f"stalloc: CUDA has already been started in this process, and from then on stalloc "
            f"needs its adapter, which is not there: {why}. Fix that, or call stalloc.enable() "
            f"before the first tensor goes to the GPU"
        ) from why
