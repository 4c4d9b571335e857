"""The interface of torch_memory_saver on top of stalloc: its users change one import.

    from torch_memory_saver import torch_memory_saver    # before
    from stalloc.integrations import torch_memory_saver  # now, after stalloc.enable()

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = Model().cuda()
    torch_memory_saver.pause("weights")
    torch_memory_saver.resume("weights")

As there, memory outside of regions is never paused, and whether contents are kept is set where a
region begins; it holds for all of a tag if one of its regions asks for it. Memory of captured
graphs is not paused. See stalloc.pause for the rest.
"""

import contextlib
from collections.abc import Iterator
from typing import Optional

from .. import _sleep

_keeps: dict[str, bool] = {}  # by tag: whether its memory is copied to the host


@contextlib.contextmanager
def region(tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
    """pause(tag) pauses what this thread allocates inside."""
    with _sleep.region(tag):
        _keeps[tag] = _keeps.get(tag, False) or enable_cpu_backup
        yield


def pause(tag: Optional[str] = None) -> None:
    """Pauses the memory of a tag or of all tags; on an error none is paused.

    Raises:
        StallocError: as stalloc.pause does.
    """
    tags = list(_keeps) if tag is None else [tag]
    kept = [t for t in tags if _keeps.get(t, True)]
    lost = [t for t in tags if t not in kept]
    if kept:
        _sleep.pause(kept)
    try:
        if lost:
            _sleep.pause(lost, "discard")
    except BaseException:
        if kept:
            _sleep.resume(kept)
        raise


def resume(tag: Optional[str] = None) -> None:
    """Resumes the memory of a tag or of all tags.

    Raises:
        StallocError: as stalloc.resume does.
    """
    tags = list(_keeps) if tag is None else [tag]
    if tags:
        _sleep.resume(tags)
