"""Memory that leaves for the host while nobody uses it: optimizer states, and regions by name."""

import contextlib
import itertools
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal, Optional

from . import _library, _session, _torch
from ._errors import StallocError, StallocWarning

# Smaller states stay: step counters, scales of 8-bit states.
LEAST = 1 << 20
# So much moves into the region before what it had before goes back to the driver: the region shall
# get new handles, which are large.
AT_ONCE = 512 << 20

_numbers = itertools.count()


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
    library.begin_awake(ordinal, tag, _stream(torch, ordinal))
    try:
        yield
    finally:
        library.end_awake(ordinal, tag, _stream(torch, ordinal), changed)


def prefetch(tag: str, *, device: Any = None) -> None:
    """Begins to bring the region `tag` back, as far as there is room, ahead of its next awake().

    Raises:
        StallocError: no region has this name.
    """
    active = _session.active()
    if active is not None:
        torch, library = active
        library.prefetch(_torch.device_index(torch, device), tag)


def offload(optimizer: Any, when: Literal["short", "always"] = "short") -> Any:
    """The states of an optimizer lend their memory between its steps. Returns the optimizer.

    For every torch.optim.Optimizer; run on a GPU with fused and foreach AdamW.
    States of at least 1 MiB get memory of their own after the step that made them, and after
    load_state_dict. From then on as much of it as other tensors are short of is copied to the host
    behind each step, and comes back before the next. Where everything fits, nothing moves;
    "always" moves all of it. Losses and weights are the same bits as without.

    Whoever reads `optimizer.state` (state_dict does) has the states on the device until the next
    step; while states, or dictionaries of them, are referenced from elsewhere, they stay there.
    A step that is captured into a CUDA graph ends the offloading of this optimizer. Not for
    optimizers that step inside the backward pass. Does nothing while stalloc is not enabled.

    Raises:
        StallocError: it is no torch.optim.Optimizer, nor a wrapper that has one as `optimizer`.
        ValueError: `when` is neither.
    """
    if when not in ("short", "always"):
        raise ValueError(f'stalloc: when is {when!r}: expected "short" or "always"')
    active = _session.active()
    if active is None:
        return optimizer
    torch, library = active
    inner = optimizer
    while not isinstance(inner, torch.optim.Optimizer):
        inner = getattr(inner, "optimizer", None)
        if inner is None:
            raise StallocError(
                f"stalloc: offload() needs a torch.optim.Optimizer, or a wrapper that has one as "
                f"`optimizer`, and got a {type(optimizer).__name__}"
            )
    known = inner.__dict__.get("_stalloc")
    if known is None:
        inner._stalloc = _Offloaded(torch, library, inner, when == "always")
    else:
        known.always = when == "always"
    return optimizer


class _Offloaded:
    """What offload() knows of an optimizer."""

    kind = "cuda"  # of the devices whose memory can leave

    def __init__(
        self, torch: ModuleType, library: _library.Library, optimizer: Any, always: bool
    ) -> None:
        self.torch, self.binding, self.always = torch, library, always
        self.tag = f"stalloc.offload.{next(_numbers)}"
        self.devices: set[int] = set()  # where the region has memory
        self.moved: set[int] = set()  # addresses of storages in it
        self.away = False  # it was closed, on all devices
        self.captured = False  # a graph has its addresses
        self.told = False
        optimizer.register_step_pre_hook(self._before)
        optimizer.register_step_post_hook(self._after)
        optimizer.register_load_state_dict_post_hook(self._adopt)
        _watch_state(optimizer)
        self._after(optimizer)

    def wake(self) -> None:
        """Has the states on the device for the current streams."""
        if not self.away:
            return
        for device in self.devices:
            self.binding.begin_awake(device, self.tag, _stream(self.torch, device))
        self.away = False

    def _before(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        self.captured = self.captured or _capturing(self.torch)
        self.wake()

    def _after(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        if self.captured or self.away:
            return
        self._adopt(optimizer)
        if not self.devices:
            return
        if self._held(optimizer):
            if not self.told:
                self.told = True
                warnings.warn(
                    "stalloc: optimizer states are referenced from outside of the optimizer; they "
                    "stay on the device while they are",
                    StallocWarning,
                    stacklevel=2,
                )
            return
        self.away = True
        for device in self.devices:
            self.binding.end_awake(device, self.tag, _stream(self.torch, device), True, self.always)

    def _adopt(self, optimizer: Any) -> None:
        """Moves states that are elsewhere into the region."""
        if _capturing(self.torch):
            return
        sharing: dict[int, list[Any]] = {}  # by storage
        for tensor in _tensors(self.torch, optimizer.__dict__["state"]):
            storage = tensor.untyped_storage()
            at = storage.data_ptr()
            large = storage.nbytes() >= LEAST
            if tensor.device.type == self.kind and large and at not in self.moved:
                sharing.setdefault(at, []).append(tensor)
        if not sharing:
            return
        self.wake()
        idle, known = AT_ONCE, len(self.moved)
        for tensors in sharing.values():
            # Parameters, gradients or flat buffers may be the same memory.
            if self._uses(tensors[0]) > len(tensors):
                continue
            if idle >= AT_ONCE:
                self.torch.cuda.empty_cache()
                idle = 0
            idle += tensors[0].untyped_storage().nbytes()
            self.moved.add(self._move(tensors))
        if len(self.moved) > known:
            self.torch.cuda.empty_cache()

    def _uses(self, tensor: Any) -> int:
        """How many tensors share the storage."""
        return int(self.torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)) - 1

    def _move(self, tensors: list[Any]) -> int:
        """Gives the tensors of one storage a new one in the region; returns its address."""
        torch, first = self.torch, tensors[0]
        old = first.untyped_storage()
        with torch.no_grad():
            self.binding.begin_region(self.tag)
            try:
                new = torch.empty(old.nbytes(), dtype=torch.uint8, device=first.device)
            finally:
                self.binding.end_region()
            whole = torch.empty(0, dtype=torch.uint8, device=first.device)
            new.copy_(whole.set_(old, 0, (old.nbytes(),), (1,)))
            storage = new.untyped_storage()
            for tensor in tensors:
                tensor.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        self.devices.add(first.device.index or 0)
        return int(storage.data_ptr())

    def _held(self, optimizer: Any) -> bool:
        """Whether others than the optimizer refer to states, or to dictionaries of them."""
        state = optimizer.__dict__["state"]
        alone = _references({0: {}})[0]
        if max(_references({0: optimizer.__dict__["state"]})) > alone + 2:  # __dict__ and ours
            return True
        if max(_references(state), default=0) > alone:
            return True
        for values in state.values():
            if isinstance(values, dict) and any(
                self.torch.is_tensor(value) and count > alone
                for value, count in zip(values.values(), _references(values))
            ):
                return True
        sharing: dict[int, list[Any]] = {}
        for tensor in _tensors(self.torch, state):
            at = tensor.untyped_storage().data_ptr()
            if at in self.moved:
                sharing.setdefault(at, []).append(tensor)
        return any(self._uses(tensors[0]) > len(tensors) for tensors in sharing.values())


def _references(values: dict[Any, Any]) -> list[int]:
    """How many references there are to each value."""
    return [sys.getrefcount(value) for value in values.values()]


def _tensors(torch: ModuleType, value: Any) -> Iterator[Any]:
    """The plain tensors that a state ends in: of DTensors and other wrappers, those inside."""
    if torch.is_tensor(value):
        if hasattr(value, "_local_tensor"):
            yield from _tensors(torch, value._local_tensor)
        elif hasattr(value, "__tensor_flatten__"):
            for name in value.__tensor_flatten__()[0]:
                yield from _tensors(torch, getattr(value, name))
        else:
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(torch, inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _tensors(torch, inner)


def _watch_state(optimizer: Any) -> None:
    """Makes reading `optimizer.state` wake the states."""
    kind = type(optimizer)

    def read(self: Any) -> Any:
        offloaded: Optional[_Offloaded] = self.__dict__.get("_stalloc")
        if offloaded is not None:
            offloaded.wake()
        return self.__dict__["state"]

    def write(self: Any, value: Any) -> None:
        self.__dict__["state"] = value

    body = {"state": property(read, write), "__module__": kind.__module__}
    body["__qualname__"] = kind.__qualname__
    optimizer.__class__ = type(kind.__name__, (kind,), body)


def _stream(torch: ModuleType, device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


def _capturing(torch: ModuleType) -> bool:
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
