"""An optimizer's step, part by part: the states of one part at a time have to be on the device."""

import functools
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

from . import _offload_state
from ._offload_part import Part

# Bytes of parameters of a part. Adam has twice as many of states.
PART = 512 << 20


def undivided(torch: ModuleType, optimizer: Any) -> Optional[Callable[..., Any]]:
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
    """Gives each parameter a part; returns the parts that are new.

    A parameter keeps its part as long as a group has it or it has states, which are in the part's
    region. The largest part is the first: where its states fit, those of the others will, too.
    """
    of = {id(x): part for part in parts for x in part.parameters}
    every = {id(x): x for group in optimizer.param_groups for x in group["params"]}
    if of.keys() == every.keys():
        return []
    state = optimizer.__dict__["state"]
    for part in parts:
        part.parameters = [x for x in part.parameters if id(x) in every or x in state]
    added: list[Part] = []
    size = 0  # of the last part
    for x in every.values():
        if id(x) not in of:
            size += _bytes(torch, [x])
            if not added or size > PART:
                added.append(new())
                size = _bytes(torch, [x])
            added[-1].parameters.append(x)
    parts += added
    parts.sort(key=lambda part: _bytes(torch, part.parameters), reverse=True)
    return added


def _bytes(torch: ModuleType, parameters: list[Any]) -> int:
    return sum(tensor.nbytes for tensor in _offload_state.tensors(torch, parameters))


def groups_of(
    torch: ModuleType, optimizer: Any, parts: list[Part]
) -> dict[Part, list[dict[str, Any]]]:
    """For each part, copies of the optimizer's groups with the parameters of that part alone."""
    of = {id(x): part for part in parts for x in part.parameters}
    groups: dict[Part, list[dict[str, Any]]] = {part: [] for part in parts}
    for group in optimizer.param_groups:
        options = {**group, "foreach": False} if _loops(torch, group) else group
        params: dict[Part, list[Any]] = {}
        for x in group["params"]:
            params.setdefault(of[id(x)], []).append(x)
        for part, some in params.items():
            groups[part].append({**options, "params": some})
    return groups


def update(whole: Callable[..., Any], optimizer: Any, groups: list[dict[str, Any]]) -> None:
    """Steps a twin of the optimizer that has these groups, and the same states and options.

    So other threads, such as one that logs the learning rate, find the optimizer's groups whole.
    """
    twin = object.__new__(type(optimizer))
    vars(twin).update(vars(optimizer), param_groups=groups)
    whole(twin)
    vars(optimizer).update(vars(twin), param_groups=optimizer.param_groups)


def unscale(optimizer: Any) -> None:
    """Takes back what a GradScaler has noted on the optimizer for a step, as it does after one.

    When the step is called again, it would multiply that by its scale.
    """
    for name in ("grad_scale", "found_inf"):
        vars(optimizer).pop(name, None)


def _loops(torch: ModuleType, group: dict[str, Any]) -> bool:
    """Whether some parameters make PyTorch loop over a group; then all of its parts are looped."""
    if group.get("foreach", True) is not None:
        return False
    module: Any = sys.modules[torch.optim.Optimizer.__module__]
    params = [x for x in group["params"] if x.grad is not None]
    return not module._default_to_fused_or_foreach(params, False)[1]
