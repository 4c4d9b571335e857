"""The adapter: PyTorch's own interface for CUDA allocators, served by libstalloc.

The functions that are called here are in lib/torch/adapter.cc; _adapter_build finds the library.
"""

import ctypes
import os
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from . import _adapter_build, _library
from ._adapter_build import Unavailable

_TEXT = 4096  # bytes of a message


def install(torch: ModuleType, library: _library.Library, path: Path) -> None:
    """Makes the adapter PyTorch's CUDA allocator, also after CUDA has started.

    Raises:
        Unavailable: it cannot be loaded, or is for another version. Nothing has changed then.
    """
    adapter = _adapter_build.load(path)
    made_for = adapter.stalloc_adapter_torch
    made_for.restype = ctypes.c_char_p
    version = made_for().decode()
    if tuple(map(int, version.split(".")[:2])) != _adapter_build.release(torch):
        raise Unavailable(f"{path} is made for PyTorch {version}, this is {torch.__version__}")
    library.init()
    text = ctypes.create_string_buffer(_TEXT)
    if adapter.stalloc_adapter_install(os.fsencode(library.path), text, _TEXT) < 0:
        raise Unavailable(text.value.decode("utf-8", "replace"))
    _share(torch, adapter)
    global _installed
    _installed = adapter


_installed: Any = None


def close() -> None:
    """From now on PyTorch's own allocator serves requests; frees still find our blocks."""
    if _installed is not None:
        _installed.stalloc_adapter_close()


def has_open_pools() -> bool:
    """Whether a private pool is being allocated to while a stream may be under capture."""
    return _installed is not None and _installed.stalloc_adapter_open_pools() > 0


def held(device: int) -> dict[tuple[int, int], int]:
    """What PyTorch's own allocator and private pools hold on a device, by the id of the pool."""
    if _installed is None:
        return {}
    room = 0
    while True:
        pools = (ctypes.c_uint64 * 3 * room)()
        n = _installed.stalloc_adapter_held(device, pools, ctypes.c_size_t(room))
        if n <= room:
            return {(first, second): size for first, second, size in pools[:n]}
        room = n + 8  # others may come meanwhile


def _share(torch: ModuleType, library: Any) -> None:
    """Moves storages to cudaMalloc memory before they are sent: others can open only that."""
    original: Callable[..., Any] = torch.UntypedStorage._share_cuda_
    move = library.stalloc_adapter_make_shareable
    move.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

    def share(storage: Any, *args: Any, **kwargs: Any) -> Any:
        text = ctypes.create_string_buffer(_TEXT)
        if move(storage._cdata, text, _TEXT) < 0:
            raise RuntimeError(text.value.decode("utf-8", "replace"))
        return original(storage, *args, **kwargs)

    torch.UntypedStorage._share_cuda_ = share
