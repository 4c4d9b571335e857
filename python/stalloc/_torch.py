"""Installing stalloc as PyTorch's pluggable allocator, or saying why that is impossible.

The route is torch.cuda.memory.CUDAPluggableAllocator. PyTorch accepts an allocator only before
CUDA starts and only once per process; it takes the addresses of C functions.
"""

import ctypes
import importlib
import os
from types import ModuleType
from typing import Any, Optional

from . import _hook, _library
from ._errors import StallocError

_DRIVER = "libcuda.so.1"

# c10::detail::torchCheckFail(char const*, char const*, unsigned int, char const*): throws
# c10::Error, which PyTorch turns into Python's RuntimeError.
_THROWER = "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"


def load() -> ModuleType:
    """Imports PyTorch, without calling the hook that waits for that import."""
    _hook.disarm()
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise StallocError(
            f"stalloc: PyTorch cannot be imported ({error}); install it, or use "
            f"the Python that trains"
        ) from error
    return torch


def why_inactive(torch: ModuleType, driver: Optional[str] = None) -> Optional[str]:
    """Why this machine cannot use stalloc, or None. Training on the CPU can go on.

    `driver` is the setting of that name: the driver's library, if it is not the usual one.
    """
    version = getattr(torch, "version", None)
    if getattr(version, "hip", None):
        return f"PyTorch {torch.__version__} is built for ROCm; stalloc needs a CUDA build"
    if not getattr(version, "cuda", None):
        return f"PyTorch {torch.__version__} is built without CUDA"
    try:
        # Asking torch.cuda.is_available() would start the driver in this process, and forked
        # children could not use CUDA any more. Looking for the library starts nothing.
        ctypes.CDLL(driver or _DRIVER)
    except OSError as error:
        return f"there is no NVIDIA driver ({error})"
    return None


def check_unused(torch: ModuleType) -> None:
    """Raises now, with a remedy, if PyTorch would refuse the allocator later."""
    if torch.cuda.is_initialized():
        raise StallocError(
            "stalloc: CUDA has already been started in this process, and PyTorch accepts an "
            "allocator only before; call stalloc.enable() first thing in the program, before "
            "the first tensor goes to the GPU and before torch.cuda.init()"
        )
    backend = getattr(torch.cuda.memory, "get_allocator_backend", lambda: "native")()
    if backend == "pluggable":
        raise StallocError(
            "stalloc: another CUDAPluggableAllocator is already installed and PyTorch accepts "
            "only one per process; remove that call of change_current_allocator"
        )


def install(torch: ModuleType, library: _library.Library) -> None:
    """Makes stalloc the process's CUDA allocator."""
    memory = torch.cuda.memory
    if not hasattr(memory, "CUDAPluggableAllocator"):
        raise _too_old(torch, "torch.cuda.memory.CUDAPluggableAllocator")
    plugged = memory.CUDAPluggableAllocator(library.path, _library.ALLOC, _library.FREE)
    allocator = plugged.allocator()
    for setter in _library.HOOKS:
        if not hasattr(allocator, setter):
            raise _too_old(torch, f"{setter} of the pluggable allocator")
    thrower = _thrower(torch)
    library.init()
    library.set_thrower(thrower)
    for setter, function in _library.HOOKS.items():
        getattr(allocator, setter)(library.address(function))
    try:
        memory.change_current_allocator(plugged)
    except RuntimeError as error:
        raise StallocError(
            f"stalloc: PyTorch {torch.__version__} refused the allocator: {error}; call "
            f"stalloc.enable() before anything else uses CUDA, once per process"
        ) from error


def device_index(torch: ModuleType, device: Any) -> int:
    """The ordinal of a device as torch takes it: None, an int, "cuda:1", torch.device.

    Raises:
        StallocError: there is no such device. Before CUDA has started their number is unknown.
        ValueError: it is not a CUDA device.
    """
    index = _index(torch, device)
    started = torch.cuda.is_initialized()
    if index < 0 or started and index >= torch.cuda.device_count():
        raise StallocError(f"stalloc: there is no device {index}")
    return index


def is_capturing(torch: ModuleType) -> bool:
    """Whether the current stream is captured into a graph; asking does not start CUDA."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _index(torch: ModuleType, device: Any) -> int:
    if isinstance(device, int):
        return device
    if device is not None:
        device = torch.device(device)
        if device.type != "cuda":
            raise ValueError(f"stalloc: {device} is not a CUDA device; name one like 'cuda:0'")
        if device.index is not None:
            return int(device.index)
    # Asking for the current device would start CUDA.
    return int(torch.cuda.current_device()) if torch.cuda.is_initialized() else 0


def _thrower(torch: ModuleType) -> int:
    """The address of a function that throws an exception that PyTorch catches.

    CUDAPluggableAllocator does not check results: a NULL would become a tensor, and the next kernel
    an illegal access. Only a C++ exception prevents that, so without this function stalloc is not
    installed.
    """
    path = os.path.join(os.path.dirname(torch.__file__ or ""), "lib", "libc10.so")
    try:
        function = getattr(ctypes.CDLL(path), _THROWER)
    except (OSError, AttributeError) as error:
        raise StallocError(
            f"stalloc: PyTorch {torch.__version__} has no {_THROWER} in {path} ({error}), "
            f"without which running out of memory would corrupt the program; please report this "
            f"version, and use another release of PyTorch meanwhile"
        ) from error
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _too_old(torch: ModuleType, missing: str) -> StallocError:
    return StallocError(
        f"stalloc: PyTorch {torch.__version__} has no {missing}; "
        f"stalloc needs PyTorch 2.3 or newer: upgrade with `pip install --upgrade torch`"
    )
