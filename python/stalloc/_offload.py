"""Optimizer states that move to the host while they are not used."""

import itertools
import warnings
from types import ModuleType
from typing import Any, Literal

from . import _lend, _library, _offload_state, _session
from ._errors import StallocError, StallocWarning

# Smaller states stay: step counters, scales of 8-bit states.
LEAST = 1 << 20
# After so many bytes moved into the region, the memory that they left is released to the driver. So
# the region gets new handles, which are large.
AT_ONCE = 512 << 20
# After so many steps in a row that made new states, every later step is expected to.
FRESH = 4

_numbers = itertools.count()


def offload(optimizer: Any, when: Literal["short", "always"] = "short") -> Any:
    """The states of an optimizer lend their memory between its steps. Returns the optimizer.

    For every torch.optim.Optimizer; tested on a GPU with fused and foreach AdamW.
    States of at least 1 MiB get their own memory after the step that made them, and after
    load_state_dict. From then on as much of it as other tensors need is copied to the host after
    each step, and comes back before the next. Where everything fits, nothing moves; "always" moves
    all of it. Losses and weights are bit-identical to those without.

    Reading `optimizer.state` (state_dict does) brings the states back to the device until the next
    step; while states, or dictionaries of them, are referenced from elsewhere, they stay there.
    A step that is captured into a CUDA graph or runs inside the backward pass ends the offloading
    of this optimizer, and so do new states in each step (LBFGS): a warning says so, and the states
    stay on the device. What an optimizer keeps outside of `state`, such as fp32 weights, stays
    there, too. Does nothing while stalloc is not enabled.

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
        known = _Offloaded(torch, library, inner)
        inner._stalloc = known
    known.always = when == "always"
    known.begin(inner)
    return optimizer


class _Offloaded:
    """The state of offload() for one optimizer."""

    kind = "cuda"  # of the devices whose memory can leave

    def __init__(self, torch: ModuleType, library: _library.Library, optimizer: Any) -> None:
        self.torch, self.binding = torch, library
        self.always = False
        self.tag = f"stalloc.offload.{next(_numbers)}"
        self.devices: set[int] = set()  # where the region has memory
        self.moved: set[int] = set()  # addresses of storages in it
        self.away = False  # it was closed, on all devices
        self.over = False  # its states stay on the device
        self.fresh = 0  # steps in a row that have made states anew
        self.told = False
        optimizer.register_step_pre_hook(self._before)
        optimizer.register_step_post_hook(self._after)
        optimizer.register_load_state_dict_post_hook(self._adopt)
        _offload_state.watch(optimizer)

    def begin(self, optimizer: Any) -> None:
        """Moves states that are there already."""
        self._after(optimizer)

    def wake(self) -> None:
        """Brings the states back for the current streams."""
        if not self.away:
            return
        for device in self.devices:
            self.binding.begin_awake(device, self.tag, _lend.current_stream(self.torch, device))
        self.away = False

    def _before(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        self.wake()
        if _capturing(self.torch):
            self._end("a step is captured into a graph, which remembers their addresses")
        elif self.torch._C._current_graph_task_id() != -1:
            self._end("the optimizer steps inside the backward pass")

    def _after(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        if self.over or self.away:
            return
        self.fresh = self.fresh + 1 if self._adopt(optimizer) else 0
        if self.fresh >= FRESH:
            self._end("each step makes them anew")
        if self.over or not self.devices:
            return
        if self._held(optimizer):
            self._warn(
                "optimizer states are referenced from outside of the optimizer; they stay on the "
                "device while they are"
            )
            return
        self.away = True
        for device in self.devices:
            stream = _lend.current_stream(self.torch, device)
            self.binding.end_awake(device, self.tag, stream, True, self.always)

    def _end(self, why: str) -> None:
        """Ends offloading: the states stay on the device."""
        if not self.over:
            self.over, self.told = True, False
            self._warn(f"optimizer states stay on the device from now on: {why}")

    def _warn(self, text: str) -> None:
        if not self.told:
            self.told = True
            warnings.warn(f"stalloc: {text}", StallocWarning, stacklevel=4)

    def _adopt(self, optimizer: Any, *_: Any) -> bool:
        """Moves states that are elsewhere into the region; returns whether there were any."""
        if self.over or _capturing(self.torch):
            return False
        sharing: dict[int, list[Any]] = {}  # by storage
        seen: set[int] = set()
        for tensor in _offload_state.tensors(self.torch, optimizer.__dict__["state"]):
            storage = tensor.untyped_storage()
            at = storage.data_ptr()
            seen.add(at)
            large = storage.nbytes() >= LEAST
            if tensor.device.type == self.kind and large and at not in self.moved:
                sharing.setdefault(at, []).append(tensor)
        self.moved &= seen
        if not sharing:
            return False
        self.wake()
        idle, moved = AT_ONCE, False
        for tensors in sharing.values():
            # Parameters, gradients or flat buffers may be the same memory.
            if self._uses(tensors[0]) > len(tensors):
                continue
            if idle >= AT_ONCE:
                self.torch.cuda.empty_cache()
                idle = 0
            idle += tensors[0].untyped_storage().nbytes()
            self.moved.add(self._move(tensors))
            moved = True
        if moved:
            self.torch.cuda.empty_cache()
        return moved

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
        alone = _offload_state.references({0: {}})[0]
        if (
            max(_offload_state.references({0: optimizer.__dict__["state"]})) > alone + 2
        ):  # __dict__ and ours
            return True
        if max(_offload_state.references(state), default=0) > alone:
            return True
        for values in state.values():
            if isinstance(values, dict) and any(
                count > alone and self.torch.is_tensor(value) and self._moved_of(value)
                for value, count in zip(values.values(), _offload_state.references(values))
            ):
                return True
        sharing: dict[int, list[Any]] = {}
        for tensor in self._moved_of(state):
            sharing.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
        return any(self._uses(tensors[0]) > len(tensors) for tensors in sharing.values())

    def _moved_of(self, value: Any) -> list[Any]:
        """The tensors of a state that lie in the region."""
        return [
            tensor
            for tensor in _offload_state.tensors(self.torch, value)
            if tensor.untyped_storage().data_ptr() in self.moved
        ]


def _capturing(torch: ModuleType) -> bool:
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
