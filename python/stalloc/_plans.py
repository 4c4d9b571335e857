"""Plans in files that the program names."""

import os
from typing import Any, Union

from . import _rank, _session, _torch

Path = Union[str, "os.PathLike[str]"]


def save_plan(path: Path, device: Any = None) -> bool:
    """Writes the device's latest plan to a file, for load_plan() of a later run.

    %r in `path` is the rank. A reader, or a crash, meets the old file or the new one, never a
    part. Does nothing and returns False while stalloc is not enabled.

    Raises:
        StallocError: no step has been planned yet, or the file cannot be written.
    """
    session = _session._session
    if session.native is None or session.torch is None:
        return False
    session.native.save_plan(_torch.device_index(session.torch, device), _name(path))
    return True


def load_plan(path: Path, device: Any = None) -> bool:
    """Reads a saved plan: the steps that came again in an earlier run.

    They are planned anew as soon as this run has the memory, so it need not see a step come again
    first. Call it after enable() and before the first tensor goes to the device. %r in `path` is
    the rank. Steps that this run does not make cost a look. Does nothing and returns False while
    stalloc is not enabled.

    Raises:
        StallocError: the file is no plan, or cannot be read, or the device is in use already.
    """
    session = _session._session
    if session.native is None or session.torch is None:
        return False
    session.native.load_plan(_torch.device_index(session.torch, device), _name(path))
    return True


def _name(path: Path) -> str:
    return _rank.expand(os.path.abspath(path))
