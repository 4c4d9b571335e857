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


def references(values: dict[Any, Any]) -> list[int]:
    """How many references there are to each value."""
    return [sys.getrefcount(value) for value in values.values()]


def tensors(torch: ModuleType, value: Any) -> Iterator[Any]:
    """The plain tensors of a state; for DTensors and other wrappers, the tensors inside.

    Not sparse ones, which have no storage of their own.
    """
    if type(value) is torch.Tensor:  # most are, and to look for attributes takes microseconds
        if value.layout is torch.strided:
            yield value
    elif torch.is_tensor(value):
        if hasattr(value, "_local_tensor"):
            yield from tensors(torch, value._local_tensor)
        elif hasattr(value, "__tensor_flatten__"):
            for name in value.__tensor_flatten__()[0]:
                yield from tensors(torch, getattr(value, name))
        else:
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors(torch, inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors(torch, inner)


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
