"""Waiting for a program to import torch."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Callable, Optional


class _Finder:
    """Finds torch as the other finders do, and makes its loader call `then` after the import."""

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
            # Checked only now: a program may look for torch and not import it, as transformers
            # does, and this may have been disarmed meanwhile.
            execute(module)
            then = self.then
            disarm()
            if then is not None:
                then()

        loader.exec_module = execute_and_then  # type: ignore[method-assign]
        return spec


_finder = _Finder()


def arm(then: Callable[[], None]) -> None:
    """Calls `then` after the first import of torch, or at once if torch is imported already."""
    if "torch" in sys.modules:
        then()
        return
    _finder.then = then
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def disarm() -> None:
    """Stops waiting."""
    _finder.then = None
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
