"""Which of the two ways into PyTorch is taken: the adapter, or CUDAPluggableAllocator.

The adapter is PyTorch's own interface: statistics, snapshots, graphs and private pools work as
under PyTorch's allocator, and it may come after CUDA has started. Where it cannot be had, the
pluggable allocator serves, of which much in PyTorch does not work; a line says so.
"""

import warnings
from types import ModuleType

from . import _adapter, _native, _torch
from ._errors import StallocError, StallocWarning

SETTING = "route"
AUTO, ADAPTER, PLUGGABLE = "auto", "adapter", "pluggable"
DEFAULT = AUTO


def install(torch: ModuleType, native: _native.Native, wanted: str, stacklevel: int) -> str:
    """Makes stalloc the process's CUDA allocator; returns the route that was taken."""
    if wanted != PLUGGABLE:
        try:
            _adapter.install(torch, native, _adapter.find(torch))
            return ADAPTER
        except (_adapter.Unavailable, OSError) as error:
            if wanted == ADAPTER:
                raise StallocError(f"stalloc: no adapter: {error}") from error
            _refuse_late(torch, error)
            warnings.warn(
                f"stalloc: PyTorch is entered as a pluggable allocator, without memory history, "
                f"MemPool, IPC and graph trees, because: {error}",
                StallocWarning,
                stacklevel=stacklevel,
            )
    _torch.check_unused(torch)
    _torch.install(torch, native)
    return PLUGGABLE


def _refuse_late(torch: ModuleType, why: Exception) -> None:
    """Once CUDA has started only the adapter helps, so it is what there is to mend."""
    if torch.cuda.is_initialized():
        raise StallocError(
            f"stalloc: CUDA has already been started in this process, where only the adapter can "
            f"come in, and there is none: {why}; or call stalloc.enable() before the first tensor "
            f"goes to the GPU"
        ) from why
