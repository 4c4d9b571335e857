"""STALLOC=1 in the environment: stalloc enables itself when a program has imported torch.

A line in the package's .pth file, which Python runs when it starts, imports this module where
the variable is set. torch is not imported here: a program that does not use it pays nothing.
Whatever fails leaves the program as it would be without stalloc, with a warning; STALLOC=strict
makes that an error. Child processes inherit the variable, so launchers need know nothing.
"""

import importlib.util
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Optional

from . import _session, _summary
from ._errors import StallocError, StallocWarning

VARIABLE = "STALLOC"
_ON = ("1", "on", "true", "yes")
_OFF = ("", "0", "off", "false", "no")
_STRICT = "strict"


def arm() -> None:
    """Waits for torch if the environment says so; for the .pth file."""
    value = os.environ.get(VARIABLE, "").lower()
    if value in _OFF:
        return
    if value not in (*_ON, _STRICT):
        print(
            f"stalloc stays off: {VARIABLE}={value} in the environment; "
            f"set it to 1, {_STRICT} or 0",
            file=sys.stderr,
        )
        return
    sys.meta_path.insert(0, _finder)


def disarm() -> None:
    """For programs that enable stalloc themselves, or must run without it."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def begin(strict: bool) -> None:
    """Enables stalloc for the program that runs here, with the summary at its end."""
    if _session.enable(strict=strict):
        _summary.at_exit()


def _after_torch() -> None:
    strict = os.environ.get(VARIABLE, "").lower() == _STRICT
    try:
        begin(strict)
    except (StallocError, ValueError) as error:
        if strict:
            raise
        warnings.warn(f"stalloc stays off: {error}", StallocWarning, stacklevel=2)


class _Finder:
    """Finds torch as everybody else would, and has its loader call _after_torch() at the end."""

    _asking = False

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

        def execute_and_enable(module: ModuleType) -> None:
            # Only now: who looks for torch, as transformers does, need not import what is found.
            disarm()
            execute(module)
            _after_torch()

        loader.exec_module = execute_and_enable  # type: ignore[method-assign]
        return spec


_finder = _Finder()
