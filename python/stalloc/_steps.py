"""Where a training step ends.

stalloc plans whole steps, so it must know where they begin. Best is a call of stalloc.step() at
the end of the loop. Until there is one, a hook of PyTorch on every optimizer's step marks them. A
training step may contain several (a generator's and a discriminator's, one per parameter group),
so one optimizer leads and only its steps are boundaries.
"""

import importlib
import weakref
from types import ModuleType
from typing import Any, Callable, Optional


class OptimizerBoundary:
    """Calls `boundary` once per training step, as far as optimizers can tell.

    The first optimizer seen leads. Another takes over when it steps twice without the leader
    stepping in between: then the leader is gone, or steps more rarely.

    At the very first step `first` is called instead, which must set no boundary: a script that
    calls stalloc.step() does so right after it, and a boundary between the two would cut the
    first training step where its gradients are still alive.
    """

    def __init__(
        self, boundary: Callable[[], None], first: Callable[[], None] = lambda: None
    ) -> None:
        self._boundary, self._next = boundary, first
        self._leader: Optional[weakref.ref[Any]] = None
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handle: Any = None

    def install(self, torch: ModuleType) -> None:
        # torch.optim deletes its attribute `optimizer`; the module itself stays importable.
        optimizers = importlib.import_module(f"{torch.__name__}.optim.optimizer")
        self._handle = optimizers.register_optimizer_step_post_hook(self._after_step)

    def remove(self) -> None:
        """From now on the program marks the boundaries."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        leader = self._leader() if self._leader is not None else None
        if leader is not None and optimizer is not leader and optimizer not in self._others:
            self._others.add(optimizer)
            return
        if optimizer is not leader:
            self._leader = weakref.ref(optimizer)
        self._others.clear()
        self._next()
        self._next = self._boundary
