"""Has PyTorch's allocator look every so often which events have passed, for a recording.

A block that other streams use is free once their events have passed, and PyTorch's allocator
looks only when a request comes: while the host waits or launches kernels that need no memory,
nobody does. A thread asks for a block now and then, so that a recording says when an event has
passed, not when somebody happened to look: late by the pause between two requests, and some tens
of microseconds. While a graph is captured PyTorch does not look.

Its requests are told by their stream and size and left out. They are served by memory that the
recording has taken before, so the driver is asked about events and nothing else. PyTorch's
statistics count two blocks of 512 bytes more, and its history fills by three entries a request,
6,000 a second.

The loop is in C and takes 3 % of a core. One in Python took 8 to 10 % more time of the thread that
runs small operations, which wait for Python's lock; this one takes it only where PyTorch exports
no functions in C (2.11 does), and with stacks.
"""

import ctypes
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from . import _native
from ._errors import StallocError

# A prime, as the marks' size is.
POLL_BYTES = 509


class Poll:
    """The thread, from start() to stop()."""

    def __init__(self, torch: ModuleType, device: int, stream: Any, micros: int) -> None:
        self._torch, self._device, self._stream, self._micros = torch, device, stream, micros
        self._native = _native.Native(_native.shim_path())
        self._stop = ctypes.c_int(0)
        self.failure: Optional[StallocError] = None  # why it ended before stop()
        self._thread = threading.Thread(target=self._poll, name="stalloc.poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.value = 1
        if self._thread.is_alive():
            self._thread.join()

    def _poll(self) -> None:
        try:
            ask, give_back = self._exported()
        except (OSError, AttributeError):
            ask, give_back = self._called()
        try:
            self._native.poll(ask, give_back, POLL_BYTES, self._micros, self._stop)
        except StallocError as error:
            self.failure = error

    def _exported(self) -> tuple[Any, Any]:
        """PyTorch's own in C; they ask for this thread's device and stream."""
        path = Path(self._torch.__file__ or "").resolve().parent / "lib" / "libtorch_cuda.so"
        library = ctypes.CDLL(str(path))
        name = "aoti_torch_cuda_caching_allocator_raw_"
        functions = getattr(library, f"{name}alloc"), getattr(library, f"{name}delete")
        self._torch.cuda.set_stream(self._stream)
        kinds = (_native.ASK, _native.GIVE_BACK)
        ask, give_back = (ctypes.cast(f, kind) for f, kind in zip(functions, kinds))
        return ask, give_back

    def _called(self) -> tuple[Any, Any]:
        cuda, device, stream = self._torch.cuda, self._device, self._stream.cuda_stream

        def ask(size: int, block: Any) -> int:
            try:
                block[0] = cuda.caching_allocator_alloc(size, device, stream)
            except Exception:
                return 1
            return 0

        def give_back(block: int) -> int:
            cuda.caching_allocator_delete(block)
            return 0

        return _native.ASK(ask), _native.GIVE_BACK(give_back)
