"""The shape of torch_memory_saver, served by stalloc: a user of it changes an import.

    from torch_memory_saver import torch_memory_saver    # before
    from stalloc.integrations import torch_memory_saver  # now, after stalloc.enable()

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = Model().cuda()
    torch_memory_saver.pause("weights")
    torch_memory_saver.resume("weights")

As there, memory outside of regions stays awake, and whether contents are kept is said where a
region begins: for all of a tag if one of its regions asks for it. What graphs capture stays
awake, see stalloc.pause, which has all else.
"""

import contextlib
from collections.abc import Iterator
from typing import Optional

from .. import _sleep

_keeps: dict[str, bool] = {}  # whether what a tag has is copied to the host, by tag


@contextlib.contextmanager
def region(tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
    """What this thread allocates inside sleeps with pause(tag)."""
    with _sleep.region(tag):
        _keeps[tag] = _keeps.get(tag, False) or enable_cpu_backup
        yield


def pause(tag: Optional[str] = None) -> None:
    """Has a tag's memory sleep, or that of all tags: all of them or, with an error, none.

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
    """Wakes a tag's memory, or that of all tags.

    Raises:
        StallocError: as stalloc.resume does.
    """
    tags = list(_keeps) if tag is None else [tag]
    if tags:
        _sleep.resume(tags)
