"""The planner of what leaves the device (plan/residency), through the engine's library."""

import ctypes
import functools
import json
from pathlib import Path
from typing import Any

from ._errors import StallocError


@functools.cache
def _function() -> Any:
    path = Path(__file__).parent / "lib" / "libstalloc_engine.so"
    try:
        function = ctypes.CDLL(str(path)).stalloc_residency
    except (OSError, AttributeError) as error:
        raise StallocError(
            f"stalloc: cannot load {path}: {error}; run `make build`, or reinstall the package"
        ) from error
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    return function


def solve(problem: dict[str, Any]) -> dict[str, Any]:
    """A residency.Plan for a residency.Problem, with Go's names of fields. Runs without the GIL.

    Raises ValueError for a problem that cannot be read, or is invalid.
    """
    text = json.dumps(problem).encode()
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = _function()(text, buffer, size)
        if needed < 0:
            raise ValueError(f"stalloc: no plan: {buffer.value.decode('utf-8', 'replace')}")
        if needed < size:
            plan: dict[str, Any] = json.loads(buffer.value)
            for name in ("Moves", "Waits"):
                plan[name] = plan[name] or []  # Go writes null for an empty list
            return plan
        size = needed + 1
