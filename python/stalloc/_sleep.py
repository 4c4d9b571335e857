"""Memory that sleeps: stalloc.pause and stalloc.resume, and stalloc.region for a part of it."""

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Literal, Optional, Union

from . import _adapter, _awake, _native, _session, _torch
from ._errors import StallocError

Tags = Optional[Union[str, Sequence[str]]]

_ALL_DEVICES = -1


class _Graphs:
    """Whether graphs may be replayed: one that reads memory which sleeps ends the process."""

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

    def look(self, torch: ModuleType, native: _native.Native, allowed: bool) -> int:
        """Refuses graphs if something sleeps and a pause has not allowed them. What sleeps."""
        asleep = sum(native.stats(device).asleep for device in _devices(torch))
        self.refused = asleep > 0 and (self.refused or not allowed)
        return asleep


_graphs = _Graphs()


@contextlib.contextmanager
def region(tag: str) -> Iterator[None]:
    """What this thread allocates inside has memory that sleeps for itself, under that name.

    Regions nest, and the same name is the same region, on each device. Inside a graph's capture
    or torch.cuda.use_mem_pool the private pool comes first. Each region holds whole handles, of
    2 MiB and more, for each of its streams. Does nothing while stalloc is not enabled.

    Raises:
        StallocError: the name is empty, or regions are nested more than 16 deep.
    """
    active = _session.active()
    if active is None:
        yield
        return
    _, native = active
    native.begin_region(tag)
    try:
        yield
    finally:
        native.end_region()


def pause(
    tags: Tags = None,
    backup: Literal["host", "discard"] = "host",
    *,
    graphs: bool = False,
    device: Any = None,
) -> int:
    """Gives memory back to the driver until resume(), and keeps every address.

    Waits for all work on the device. "host" copies what lives to the host's memory first, which
    is looked at before anything is changed; "discard" loses it: what will be loaded or computed
    anew. `tags` are names of regions; None: all of stalloc's memory, regions and the rest.
    Private pools (graphs' and MemPool's) stay awake, and what several processes have: explain()
    names each with its bytes, and log:info at each pause. `device` is all by default.

    Until resume() nothing may be launched that uses what sleeps: nobody can see a launch. An
    allocation there raises, tensors can be freed, and torch.cuda.CUDAGraph.replay raises unless
    with `graphs` all pauses say that no graph which is replayed meanwhile uses what sleeps.

    Returns the bytes that sleep. Does nothing and returns 0 while stalloc is not enabled.

    Raises:
        StallocError: a name is unknown, the host has too little memory, a stream may be being
            captured, or the driver fails. Nothing has changed, unless the text says that the
            memory sleeps: then the driver has not taken all of it back, and pause() tries again.
            Where one of several devices fails the others sleep all the same, and the text says
            of each whether it does.
        ValueError: `backup` is neither.
    """
    if backup not in ("host", "discard"):
        raise ValueError(f'stalloc: backup is {backup!r}: expected "host" or "discard"')
    active = _session.active()
    if active is None:
        return 0
    torch, native = active
    if _adapter.has_open_pools() or _capturing(torch):
        raise StallocError(
            "stalloc: a private pool is being allocated to, and a stream may be captured into a "
            "graph, which a wait for the device would end; pause outside of it"
        )
    _graphs.guard(torch)
    try:
        native.pause(_ordinal(torch, device), _names(tags), backup == "discard")
    finally:
        asleep = _graphs.look(torch, native, graphs)
    _awake.log(_devices(torch) if device is None else [_ordinal(torch, device)])
    return asleep


def resume(tags: Tags = None, *, device: Any = None) -> None:
    """Wakes what pause() has sent to sleep, at the same addresses, with what was kept of it.

    `tags` are names of regions; None: all that sleeps. Does nothing where nothing sleeps.

    Raises:
        StallocError: a name is unknown, or the driver fails, for example because the device is
            full. What slept sleeps on, and nothing is lost. Where one of several devices fails
            the others wake all the same, and the text says of each whether it sleeps.
    """
    active = _session.active(or_closed=True)
    if active is None:
        return
    torch, native = active
    try:
        native.resume(_ordinal(torch, device), _names(tags))
    finally:
        _graphs.look(torch, native, True)


def _names(tags: Tags) -> list[str]:
    if tags is None:
        return []
    names = [tags] if isinstance(tags, str) else list(tags)
    if not names:
        raise StallocError("stalloc: no region is named; None, or no argument, names all")
    return names


def _devices(torch: ModuleType) -> range:
    return range(torch.cuda.device_count() if torch.cuda.is_initialized() else 1)


def _ordinal(torch: ModuleType, device: Any) -> int:
    return _ALL_DEVICES if device is None else _torch.device_index(torch, device)


def _capturing(torch: ModuleType) -> bool:
    # Asking would start CUDA.
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
