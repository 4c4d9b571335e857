"""STALLOC=1 in the environment: stalloc enables itself when a program has imported torch.

A line in the package's .pth file, which Python runs when it starts, imports this module if the
variable is set. torch is not imported here, so a program that does not use it pays nothing. If
stalloc cannot serve, the program runs without it, with a warning; STALLOC=strict makes that an
error, and a wrong setting always is one. Child processes inherit the variable, so launchers need
no changes. A program's own call of enable() wins if it runs before the import of torch.
"""

import os
import sys
import warnings
from typing import Optional

from . import _hook, _session, _summary, activations
from ._enable import begin as begin_session
from ._errors import SettingError, StallocError, StallocWarning

# In the environment: the limit for activations that may leave the device, or auto.
ACTIVATIONS = "STALLOC_OFFLOAD_ACTIVATIONS"
_ON = ("1", "on", "true", "yes")
_IMPORT = 4  # calls above is the program's import of torch, whose line warnings name
_OFF = ("", "0", "off", "false", "no")


def arm() -> None:
    """Waits for torch if the environment says so; for the .pth file."""
    value = os.environ.get(_session.VARIABLE, "").lower()
    if value in _OFF:
        return
    if value not in (*_ON, _session.STRICT):
        print(
            f"stalloc stays off: {_session.VARIABLE}={value} in the environment; "
            f"set it to 1, {_session.STRICT} or 0",
            file=sys.stderr,
        )
        return
    begin()


def begin(promised: bool = False) -> None:
    """Enables stalloc when torch has been imported, with the summary when the program ends."""
    _summary.at_exit(promised)
    _hook.arm(_enable)


refusal: Optional[StallocError] = None  # why the program must not go on


def _enable() -> None:
    global refusal
    try:
        begun = begin_session(False, {}, _IMPORT)
    except StallocError as error:
        if isinstance(error, SettingError) or _session.strict_in_environment():
            refusal = error
            raise
        warnings.warn(f"stalloc stays off: {error}", StallocWarning, stacklevel=_IMPORT - 1)
        return
    limit = os.environ.get(ACTIVATIONS)
    if begun and limit is not None:
        try:
            activations.everywhere(limit)
        except ValueError as error:
            text = f"activations stay on the device: {ACTIVATIONS}: {error}"
            warnings.warn(text, StallocWarning, stacklevel=_IMPORT - 1)
