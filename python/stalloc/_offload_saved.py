"""An optimizer's state_dict() and load_state_dict() where its states do not fit on the device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ._errors import StallocError
from ._offload_part import Part


def methods(torch: ModuleType, kind: Any) -> dict[str, Any]:
    """state_dict() and load_state_dict() for optimizers that step part by part.

    States that fit on the device together are saved and loaded as by PyTorch. If they do not, the
    saved tensors are on the host, and the parts are loaded one after the other: the optimizer's
    load hooks are called once for each part.
    """

    def state_dict(self: Any) -> Any:
        offloaded = self.__dict__.get("_stalloc")
        if offloaded is None or offloaded.over:
            return kind.state_dict(self)
        try:
            offloaded.wake()
        except StallocError:
            with offloaded.unread(), _on_host(torch, self, offloaded.parts, offloaded.lend):
                return kind.state_dict(self)
        return kind.state_dict(self)

    def load_state_dict(self: Any, state_dict: Any) -> None:
        offloaded = self.__dict__.get("_stalloc")
        try:
            kind.load_state_dict(self, state_dict)
            return
        except (torch.OutOfMemoryError, StallocError):  # of what is loaded, or what was there
            if offloaded is None or offloaded.over:
                raise
        # Not while the error is handled: it refers to what was loaded before.
        offloaded.divide(self)  # groups may be new
        with offloaded.unread():
            _load(kind, self, state_dict, offloaded.parts, offloaded.lend)

    return {"state_dict": state_dict, "load_state_dict": load_state_dict}


@contextmanager
def _on_host(
    torch: ModuleType, optimizer: Any, parts: list[Part], lend: Callable[..., None]
) -> Iterator[None]:
    """Inside, copies on the host stand in for the optimizer's states."""
    copies: dict[Any, Any] = {}
    for part in parts:
        read = frozenset(part.away)
        part.wake()
        copies |= _copied(torch, part.states(optimizer))
        lend(optimizer, part, read)
    own = optimizer.__dict__["state"]  # not earlier: lend() would count it as a reference
    copies |= {x: values for x, values in own.items() if x not in copies}
    optimizer.__dict__["state"] = copies
    try:
        yield
    finally:
        optimizer.__dict__["state"] = own


def _copied(torch: ModuleType, value: Any) -> Any:
    if torch.is_tensor(value):
        return value.to("cpu", copy=True)
    if isinstance(value, dict):
        return {name: _copied(torch, inner) for name, inner in value.items()}
    return value


def _load(
    kind: Any, optimizer: Any, saved: Any, parts: list[Part], lend: Callable[[Any, Part], None]
) -> None:
    """Loads the states of one part after the other; what has no part comes with the first."""
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    every = [x for group in optimizer.param_groups for x in group["params"]]
    of = {id(x): part for part in parts for x in part.parameters}
    part_of = {number: of[id(x)] for number, x in zip(numbers, every)}
    state: dict[Any, Any] = {}
    loaded = 0
    for part in parts:
        some = {n: v for n, v in saved["state"].items() if part_of.get(n, parts[0]) is part}
        try:
            kind.load_state_dict(optimizer, {**saved, "state": some})
            loaded += 1
            lend(optimizer, part)
        except Exception as error:
            if not loaded:  # nothing has changed
                raise
            raise StallocError(
                f"stalloc: the optimizer's states are lost: {loaded} of {len(parts)} parts were "
                f"loaded; make room, and call load_state_dict() again: {error}"
            ) from error
        state.update(optimizer.__dict__["state"])
    optimizer.__dict__["state"].update(state)
