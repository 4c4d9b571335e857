"""Named regions that lend their memory while the program does not use them."""

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import _session, _torch


@contextlib.contextmanager
def awake(tag: str, *, changed: bool = True, device: Any = None) -> Iterator[None]:
    """Work inside uses the region `tag`; after it the region lends its memory.

    After the first awake() the region (see stalloc.region) must not be touched outside of one.
    As much of it as other tensors need is copied to pinned host memory after the work of the
    current stream. It comes back by itself when memory becomes free, at the latest when awake()
    begins: then the current stream waits for the copies, the host only for memory. Another stream
    has to wait for the current one before it uses what was in the region before; for new tensors
    it waits for the copies by itself.
    `changed=False`: the region was only read, so nothing is copied out again.
    Does nothing while stalloc is not enabled.

    Raises:
        StallocError: no region has this name, what is away does not fit, or a graph is captured
            while something is away. Nothing is lost.
    """
    active = _session.active()
    if active is None:
        yield
        return
    torch, library = active
    ordinal = _torch.device_index(torch, device)
    library.begin_awake(ordinal, tag, current_stream(torch, ordinal))
    try:
        yield
    finally:
        library.end_awake(ordinal, tag, current_stream(torch, ordinal), changed)


def prefetch(tag: str, *, device: Any = None) -> None:
    """Starts to bring the region `tag` back before its next awake(), as much as fits.

    Raises:
        StallocError: no region has this name.
    """
    active = _session.active()
    if active is not None:
        torch, library = active
        library.prefetch(_torch.device_index(torch, device), tag)


def current_stream(torch: ModuleType, device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)
