"""Waiting for a program to import torch."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Callable, Optional


class _Finder:
    """Finds torch as everybody else would, and has its loader call `then` at the end."""

    def __init__(self) -> None:
        self.then: Optional[Callable[[], None]] = None
        self._asking = False

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if name != "torch" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def execute_and_then(module: ModuleType) -> None:
            # Asked only now: who looks for torch, as transformers does, need not import what
            # is found, and whoever imports it may have disarmed this meanwhile.
            execute(module)
            then = self.then
            disarm()
            if then is not None:
                then()

        loader.exec_module = execute_and_then  # type: ignore[method-assign]
        return spec


_finder = _Finder()


def arm(then: Callable[[], None]) -> None:
    """Has `then` called after the first import of torch; nothing if that has been."""
    _finder.then = then
    if "torch" not in sys.modules and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def disarm() -> None:
    """Nobody waits any more."""
    _finder.then = None
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
