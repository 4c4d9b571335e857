"""Plans in files that the program names."""

import os
from typing import Any, Union

from . import _rank, _session, _torch

Path = Union[str, "os.PathLike[str]"]


def save_plan(path: Path, device: Any = None) -> bool:
    """Writes the device's latest plan to a file, for load_plan() of a later run.

    %r in `path` is the rank. The file is replaced atomically. Does nothing and returns False while
    stalloc is not enabled.

    Raises:
        StallocError: no step has been planned yet, or the file cannot be written.
    """
    session = _session._session
    if session.binding is None or session.torch is None:
        return False
    session.binding.save_plan(_torch.device_index(session.torch, device), _name(path))
    return True


def load_plan(path: Path, device: Any = None) -> bool:
    """Reads a saved plan: the steps that repeated in an earlier run.

    They are planned again as soon as this run has the memory, without waiting for a step to
    repeat. Call it after enable() and before the first tensor goes to the device. %r in `path` is
    the rank. Steps that do not occur in this run only cost a comparison. Does nothing and returns
    False while stalloc is not enabled.

    Raises:
        StallocError: the file is not a plan, or cannot be read, or the device is already in use.
    """
    session = _session._session
    if session.binding is None or session.torch is None:
        return False
    session.binding.load_plan(_torch.device_index(session.torch, device), _name(path))
    return True


def _name(path: Path) -> str:
    return _rank.expand(os.path.abspath(path))
