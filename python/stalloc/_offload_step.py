"""An optimizer's step, part by part: the states of one part at a time have to be on the device."""

import functools
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import _offload_state
from ._offload_part import Part

# Bytes of parameters of a part. Adam has twice as many of states.
PART = 512 << 20


def undivided(torch: ModuleType, optimizer: Any) -> Callable[..., Any] | None:
    """The step without hooks of an optimizer that treats each parameter by itself; else None.

    PyTorch's own do, but for LBFGS. Other classes may keep in a group what they count in a step.
    """
    step = type(optimizer).step
    whole = getattr(step, "__wrapped__", None)
    if isinstance(optimizer, torch.optim.LBFGS) or not step.__module__.startswith("torch.optim."):
        return None
    return None if hasattr(whole, "hooked") else whole  # a tool has wrapped the step with its hooks


def under_schedulers(optimizer: Any) -> None:
    """Replaces the step that a learning-rate scheduler, made before, has set on the optimizer."""
    if not hasattr(optimizer.__dict__.get("step"), "_wrapped_by_lr_sched"):
        return
    reference = weakref.ref(optimizer)  # weak, as in the scheduler's own
    step = type(optimizer).step

    @functools.wraps(step)
    def scheduled(*args: Any, **kwargs: Any) -> Any:
        optimizer: Any = reference()
        optimizer._opt_called = True  # what schedulers look at
        return step(optimizer, *args, **kwargs)

    marked: Any = scheduled
    marked._wrapped_by_lr_sched = True
    optimizer.step = scheduled


def divide(
    torch: ModuleType, optimizer: Any, parts: list[Part], new: Callable[[], Part]
) -> list[Part]:
    """Gives each parameter a part; returns the parts that got any.

    A parameter keeps its part as long as a group has it or it has states, which are in the part's
    region. Parameters without a part fill up the last one, then new ones.
    """
    of = {id(x): part for part in parts for x in part.parameters}
    every = {id(x): x for group in optimizer.param_groups for x in group["params"]}
    if of.keys() == every.keys():
        return []
    state = optimizer.__dict__["state"]
    for part in parts:
        part.parameters = [x for x in part.parameters if id(x) in every or x in state]
    changed, size = [], PART  # of the last part
    for x in every.values():
        if id(x) in of:
            continue
        more = sum(tensor.nbytes for tensor in _offload_state.tensors(torch, x))
        if size + more > PART:
            parts.append(new())
            size = 0
        if parts[-1] not in changed:
            changed.append(parts[-1])
        parts[-1].parameters.append(x)
        size += more
    return changed


def by_parts(
    torch: ModuleType, optimizer: Any, parts: list[Part], step: Callable[[Part], None]
) -> None:
    """Calls step for each part; meanwhile the groups have the parameters of that part alone."""
    groups = optimizer.param_groups
    every = [group["params"] for group in groups]
    loops = [group for group in groups if _loops(torch, group)]
    try:
        for group in loops:
            group["foreach"] = False
        for part in parts:
            own = {id(x) for x in part.parameters}
            for group, params in zip(groups, every):
                group["params"] = [x for x in params if id(x) in own]
            optimizer.param_groups = [group for group in groups if group["params"]]
            step(part)
    finally:
        optimizer.param_groups = groups
        for group, params in zip(groups, every):
            group["params"] = params
        for group in loops:
            group["foreach"] = None


def _loops(torch: ModuleType, group: dict[str, Any]) -> bool:
    """Whether PyTorch chooses a loop because of some parameters of a group; then it is for all."""
    if group.get("foreach", True) is not None:
        return False
    module: Any = sys.modules[torch.optim.Optimizer.__module__]
    params = [x for x in group["params"] if x.grad is not None]
    return not module._default_to_fused_or_foreach(params, False)[1]
