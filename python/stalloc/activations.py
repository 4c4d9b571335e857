"""Activations on the host until the backward pass needs them, as few as make a step fit.

    with stalloc.offload_activations():
        loss = model(batch)
    loss.backward()

What autograd saves within the block, in tensors of 1 MiB or more, is copied to pinned host memory
and comes back ahead of its use. The first steps copy all of it, and are observed: when each tensor
was saved and needed, how much memory all else took, how fast the link is. From then on as few bytes
leave as bring the peak under the limit, none where everything fits, at times that plan/residency
has chosen so that kernels wait as little as possible. Losses have the same bits.
"""

import contextlib
import dataclasses
import re
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional, Union

from . import _activation_link, _config, _session, _torch
from ._activation_offloader import Offloader
from ._activation_saved import Kept

AUTO = "auto"
_offloaders: dict[int, Offloader] = {}
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Activations:
    """What offload_activations() did on one device since the process began, in bytes and tensors.

    `stayed` counts the saved tensors of 1 MiB or more that stayed on the device, by reason.
    """

    cycles: int = 0  #: forward passes, each with the backward passes that need it
    observed: int = 0  #: cycles that were observed
    planned: int = 0  #: cycles that followed a plan to the end
    out: int = 0  #: bytes that were copied to the host
    back: int = 0  #: bytes that were copied back
    late: int = 0  #: storages that came back only when they were needed
    host: int = 0  #: bytes of pinned host memory, which is kept
    limit: int = 0  #: bytes of the device that a step may take
    leaving: int = 0  #: bytes that leave in a cycle by the last plan
    peak: int = 0  #: bytes that the last plan expects at most
    wait: float = 0.0  #: seconds that the program waits in it
    over: int = 0  #: bytes that it is above the limit
    stayed: dict[str, int] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def offload_activations(
    limit: Optional[Union[int, str]] = None, *, when: str = "short"
) -> Iterator[None]:
    """Keeps on the host what autograd saves, as far as a step would exceed the limit otherwise.

    Put it around the forward pass; the backward pass may be within or after it. `limit` is how
    much of the device's memory live tensors may take: bytes, or a text such as "24GiB" or "90%".
    By default it is the least of stalloc's limit, PyTorch's memory fraction and what is free on the
    device, less what an allocator needs beyond live tensors. `when="always"` lets all leave in each
    step.

    Tensors that stay on the device are counted in activation_counts(): parameters and views of
    them, also FSDP's; autocast's casts of parameters; subclasses; what torch.compile saves, since
    its backward pass needs all at once; what is saved on another stream, within a backward pass,
    or while a CUDA graph is captured; what there is no host memory for. Within a checkpoint only
    its inputs are saved. As usual, a saved tensor that was changed in place raises an error. While
    steps are observed, PyTorch's peak memory statistics are reset.

    Raises:
        ValueError: the limit or `when` is no such value.
    """
    if when not in ("short", "always"):
        raise ValueError(f'offload_activations(when={when!r}): give "short" or "always"')
    if limit is not None:
        parse_limit(limit, 1 << 40)
    with _hooks_for(_torch.load(), limit, when == "always"):
        yield


def everywhere(limit: str) -> None:
    """Offloads what this thread saves from now on, as within a block; for `stalloc run`."""
    if limit != AUTO:
        parse_limit(limit, 1 << 40)
    _hooks_for(_torch.load(), None if limit == AUTO else limit, False).__enter__()


def _hooks_for(torch: Any, limit: Optional[Union[int, str]], always: bool) -> Any:
    for index, offloader in list(_offloaders.items()):
        offloader.always = always
        if limit is not None:
            offloader.set_limit(_limit(torch, index, limit))

    def find(device: Any) -> Optional[Offloader]:
        if device.type != "cuda":
            return None
        return _offloaders.get(device.index) or _begin(torch, device.index, limit, always)

    return hooks(torch, find)


def hooks(torch: Any, find: Callable[[Any], Optional[Offloader]]) -> Any:
    """Autograd's hooks that save with the offloader of a tensor's device, where there is one."""

    def pack(tensor: Any) -> Any:
        offloader = find(tensor.device)
        return Kept(tensor) if offloader is None else offloader.pack(tensor)

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.unpack())


def activation_counts(device: Any = None) -> Activations:
    """What offload_activations() did on a device, by default the current one."""
    index = _torch.device_index(_torch.load(), device)
    offloader = _offloaders.get(index)
    if offloader is None:
        return Activations()
    return Activations(**offloader.counts())


def _begin(torch: Any, device: int, limit: Optional[Union[int, str]], always: bool) -> Offloader:
    with _lock:
        if device not in _offloaders:
            link = _activation_link.Link(torch, device)
            _offloaders[device] = Offloader(torch, link, _limit(torch, device, limit), always)
        return _offloaders[device]


def _limit(torch: Any, device: int, limit: Optional[Union[int, str]]) -> int:
    """What live tensors may take. An allocator needs some beyond, of what it may hold."""
    total = torch.cuda.get_device_properties(device).total_memory
    if limit is not None:
        return parse_limit(limit, total)
    most = _activation_link.limit(torch, device)
    conf = _config.value_of("limit", _session._session.conf)
    if conf is not None:
        most = min(most, parse_limit(conf, total))
    return most - most // (50 if _session.is_enabled() else 20)


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_limit(amount: Union[int, str], total: int) -> int:
    """An amount as in STALLOC_CONF: 70GiB, 70GB, 75161927680, 90%."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(iB|B|%|)\s*", str(amount), re.IGNORECASE)
    if found is None or found[3] == "%" and found[2] or float(found[1]) == 0:
        raise ValueError(f"stalloc: a limit of {amount!r}: give bytes, or a text like 24GiB or 90%")
    if found[3] == "%":
        return int(total * float(found[1]) / 100)
    unit = _UNITS[found[2].upper()]
    if found[2] and found[3].upper() == "B":
        unit = 10 ** (3 * " KMGT".index(found[2].upper()))
    return int(float(found[1]) * unit)
