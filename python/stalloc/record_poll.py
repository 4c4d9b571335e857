"""Makes PyTorch's allocator process its events regularly, for a recording.

A block that other streams use is free once their events have completed, but PyTorch's allocator
checks events only on a request: not while the host waits or launches kernels that need no memory.
So a thread requests a block now and then, and the recording has the time when an event completed,
not the time of the next request; it is late by the pause between two such requests, and some tens
of microseconds. During a graph capture PyTorch does not check.

These requests are recognized by their stream and size and left out of the trace. They are served
by memory that the recording has taken before, so they only query events from the driver. PyTorch's
statistics count two more blocks of 512 bytes, and its history gets three entries per request, 6,000
a second.

The loop is in C and takes 3 % of a core. A loop in Python slowed the thread that runs small
operations by 8 to 10 %, since they wait for the GIL; this one takes the GIL only if PyTorch exports
no C functions (2.11 does), and with stacks.
"""

import ctypes
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from . import _library
from ._errors import StallocError

# A prime, like the size of marks.
POLL_BYTES = 509


class Poll:
    """The thread, from start() to stop()."""

    def __init__(self, torch: ModuleType, device: int, stream: Any, micros: int) -> None:
        self._torch, self._device, self._stream, self._micros = torch, device, stream, micros
        self._library = _library.Library(_library.shim_path())
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
            alloc, free = self._exported()
        except (OSError, AttributeError):
            alloc, free = self._called()
        try:
            self._library.poll(alloc, free, POLL_BYTES, self._micros, self._stop)
        except StallocError as error:
            self.failure = error

    def _exported(self) -> tuple[Any, Any]:
        """PyTorch's C functions; they use this thread's current device and stream."""
        path = Path(self._torch.__file__ or "").resolve().parent / "lib" / "libtorch_cuda.so"
        library = ctypes.CDLL(str(path))
        name = "aoti_torch_cuda_caching_allocator_raw_"
        functions = getattr(library, f"{name}alloc"), getattr(library, f"{name}delete")
        self._torch.cuda.set_stream(self._stream)
        kinds = (_library.ALLOC_FUNCTION, _library.FREE_FUNCTION)
        alloc, free = (ctypes.cast(f, kind) for f, kind in zip(functions, kinds))
        return alloc, free

    def _called(self) -> tuple[Any, Any]:
        cuda, device, stream = self._torch.cuda, self._device, self._stream.cuda_stream

        def alloc(size: int, block: Any) -> int:
            try:
                block[0] = cuda.caching_allocator_alloc(size, device, stream)
            except Exception:
                return 1
            return 0

        def free(block: int) -> int:
            cuda.caching_allocator_delete(block)
            return 0

        return _library.ALLOC_FUNCTION(alloc), _library.FREE_FUNCTION(free)
