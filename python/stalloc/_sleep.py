"""Pausing memory: stalloc.pause and stalloc.resume, and stalloc.region for a part of it."""

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Literal, Optional, Union

from . import _adapter, _awake, _library, _session, _torch
from ._errors import StallocError

Tags = Optional[Union[str, Sequence[str]]]

_ALL_DEVICES = -1


class _Graphs:
    """Whether graphs may be replayed: a graph that reads paused memory kills the process."""

    def __init__(self) -> None:
        self.refused = False

    def guard(self, torch: ModuleType) -> None:
        graph = torch.cuda.CUDAGraph
        original = graph.replay
        if getattr(original, "stalloc", None) is self:
            return

        def replay(*args: Any, **kwargs: Any) -> Any:
            if self.refused:
                raise StallocError(
                    "stalloc: a CUDA graph is replayed while memory sleeps that it may use; call "
                    "stalloc.resume() first, or stalloc.pause(graphs=True) where no graph that is "
                    "replayed meanwhile uses what sleeps"
                )
            return original(*args, **kwargs)

        replay.stalloc = self  # type: ignore[attr-defined]
        graph.replay = replay

    def look(self, torch: ModuleType, library: _library.Library, allowed: bool) -> int:
        """Refuses graphs while memory sleeps, unless all pauses allowed them. Returns the bytes."""
        each = [library.stats(device) for device in _devices(torch)]
        asleep = sum(stats.asleep - stats.lent for stats in each)
        self.refused = asleep > 0 and (self.refused or not allowed)
        return asleep


_graphs = _Graphs()


@contextlib.contextmanager
def region(tag: str) -> Iterator[None]:
    """What this thread allocates inside has memory of its own, which can be paused by that name.

    Regions nest, and one name is one region, on each device. During a graph capture or in
    torch.cuda.use_mem_pool the private pool takes the requests. Each region holds whole handles of
    2 MiB or more for each of its streams. Does nothing while stalloc is not enabled.

    Raises:
        StallocError: the name is no text or empty, or regions are nested more than 16 deep.
    """
    active = _session.active()
    if active is None:
        yield
        return
    _, library = active
    library.begin_region(tag)
    try:
        yield
    finally:
        library.end_region()


def pause(
    tags: Tags = None,
    backup: Literal["host", "discard"] = "host",
    *,
    graphs: bool = False,
    device: Any = None,
) -> int:
    """Releases physical memory to the driver until resume(), and keeps every address.

    Waits for all work on the device. "host" first copies live tensors to host memory, after
    checking that there is enough; "discard" loses their contents, for tensors that will be loaded
    or computed again. `tags` are names of regions; None: all of stalloc's memory. Private pools
    (of graphs and MemPool) and memory shared with other processes are not paused: explain() lists
    them with their bytes, and log:info logs them at each pause. `device`: all by default.

    Until resume(), launch nothing that uses paused memory: stalloc cannot see launches. An
    allocation from paused memory raises, tensors can be freed, and torch.cuda.CUDAGraph.replay
    raises, unless all pauses said with `graphs` that no graph replayed meanwhile uses paused
    memory.

    Returns the paused bytes. Does nothing and returns 0 while stalloc is not enabled.

    Raises:
        StallocError: a name is unknown, the host has too little memory, a stream may be under
            capture, or the driver fails. Nothing has changed, unless the text says that the
            memory sleeps: then the driver has not taken all of it back, and pause() tries again.
            If one of several devices fails, the others are paused all the same, and the text says
            of each whether it sleeps.
        ValueError: `backup` is neither.
    """
    if backup not in ("host", "discard"):
        raise ValueError(f'stalloc: backup is {backup!r}: expected "host" or "discard"')
    active = _session.active()
    if active is None:
        return 0
    torch, library = active
    if _adapter.has_open_pools() or _torch.is_capturing(torch):
        raise StallocError(
            "stalloc: a CUDA graph is being captured, or may be, and pause() waits for the device, "
            "which would break the capture; call pause() when it has ended"
        )
    _graphs.guard(torch)
    try:
        library.pause(_ordinal(torch, device), _names(tags), backup == "discard")
    finally:
        asleep = _graphs.look(torch, library, graphs)
    _awake.log(_devices(torch) if device is None else [_ordinal(torch, device)])
    return asleep


def resume(tags: Tags = None, *, device: Any = None) -> None:
    """Restores what pause() has released, at the same addresses, with the contents it kept.

    `tags` are names of regions; None: everything. Does nothing if nothing is paused.

    Raises:
        StallocError: a name is unknown, or the driver fails, for example because the device is
            full. The memory then stays paused, and nothing is lost. If one of several devices
            fails, the others are resumed all the same, and the text says of each whether it
            sleeps.
    """
    active = _session.active(or_closed=True)
    if active is None:
        return
    torch, library = active
    try:
        library.resume(_ordinal(torch, device), _names(tags))
    finally:
        _graphs.look(torch, library, True)


def _names(tags: Tags) -> list[str]:
    if tags is None:
        return []
    names = [tags] if isinstance(tags, str) else list(tags)
    if not names:
        raise StallocError("stalloc: no region is named: tags is empty; leave it out for all")
    return names


def _devices(torch: ModuleType) -> range:
    return range(torch.cuda.device_count() if torch.cuda.is_initialized() else 1)


def _ordinal(torch: ModuleType, device: Any) -> int:
    return _ALL_DEVICES if device is None else _torch.device_index(torch, device)
