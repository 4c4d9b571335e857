"""The tensors of an optimizer's state, references to them, and reads of `optimizer.state`."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Optional


def innermost(torch: ModuleType, optimizer: Any) -> Optional[Any]:
    """The optimizer that has the states, within wrappers; None: there is none.

    accelerate's wrapper is an Optimizer by its class alone, Lightning's by what it forwards: the
    hooks are not theirs. PyTorch's own wrappers have one as `optim`; some have hooks, and no state.
    """
    inner = optimizer
    while inner is not None:
        within = getattr(inner, "optim", None)
        if isinstance(within, torch.optim.Optimizer):
            inner = within
        elif "_optimizer_step_pre_hooks" in getattr(inner, "__dict__", {}):
            return inner
        else:
            inner = getattr(inner, "optimizer", None)
    return None


def references(values: list[Any]) -> list[int]:
    """How many references there are to each value, the list's among them."""
    return [sys.getrefcount(value) for value in values]


def inside(torch: ModuleType, value: Any) -> list[Any]:
    """What a state refers to itself: a container's values, and the tensors of a DTensor or another
    wrapper."""
    if type(value) is torch.Tensor:  # most are, and to look for attributes takes microseconds
        return []
    if torch.is_tensor(value):
        if hasattr(value, "_local_tensor"):
            return [value._local_tensor]
        if hasattr(value, "__tensor_flatten__"):
            return [getattr(value, name) for name in value.__tensor_flatten__()[0]]
        return []
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def tensors(torch: ModuleType, value: Any) -> Iterator[Any]:
    """The plain tensors of a state. Not sparse ones, which have no storage of their own."""
    if type(value) is torch.Tensor:
        if value.layout is torch.strided:
            yield value
        return
    inner = inside(torch, value)
    if not inner and torch.is_tensor(value):
        yield value
    for each in inner:
        yield from tensors(torch, each)


def watch(optimizer: Any, more: dict[str, Any]) -> None:
    """Makes reading `optimizer.state` wake the states, and gives it more methods."""
    kind = type(optimizer)

    def read(self: Any) -> Any:
        offloaded = self.__dict__.get("_stalloc")
        if offloaded is not None:
            offloaded.read()
        return self.__dict__["state"]

    def write(self: Any, value: Any) -> None:
        self.__dict__["state"] = value

    def reduce(self: Any, protocol: Any) -> Any:
        """Copies and pickles are of the optimizer's own class: nothing of theirs is away."""
        _, _, *rest = super(own, self).__reduce_ex__(protocol)
        return kind.__new__, (kind,), *rest

    body: dict[str, Any] = {"state": property(read, write), "__reduce_ex__": reduce}
    body |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    own: Any = type(kind.__name__, (kind,), body | more)
    optimizer.__class__ = own
