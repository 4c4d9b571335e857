"""Regions by name that lend their memory while nobody uses them."""

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import _session, _torch


@contextlib.contextmanager
def awake(tag: str, *, changed: bool = True, device: Any = None) -> Iterator[None]:
    """Work inside uses the region `tag`; behind it the region lends its memory.

    The region (see stalloc.region) must not be touched outside of awake() from the first time
    on. As much of it as other tensors are short of leaves for pinned memory of the host after
    the work of the current stream, and comes back by itself as memory comes free, at the latest
    when awake() begins: the current stream waits for the copies, the host for memory alone.
    `changed=False`: the region was only read, so that nothing needs to be copied out again.
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
    """Begins to bring the region `tag` back, as far as there is room, ahead of its next awake().

    Raises:
        StallocError: no region has this name.
    """
    active = _session.active()
    if active is not None:
        torch, library = active
        library.prefetch(_torch.device_index(torch, device), tag)


def current_stream(torch: ModuleType, device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)
