"""Allocates one block in a process of its own, for `stalloc doctor`.

Prints a JSON object. If the process dies, for example in the driver, its parent sees that.
"""

import ctypes
import json
import sys
import time

from . import _library
from ._errors import StallocError

_BYTES = 2 << 20


def trial(device: int) -> dict[str, object]:
    """Makes a first request: how long it took, and who served it."""
    library = _library.Library(_library.shim_path())
    library.init()
    shim = ctypes.CDLL(library.path)
    shim.stalloc_malloc.restype = ctypes.c_void_p
    shim.stalloc_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    shim.stalloc_free.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    begin = time.monotonic()
    block = shim.stalloc_malloc(_BYTES, device, None)
    seconds = time.monotonic() - begin
    if not block:
        raise StallocError(library.last_error())
    stats, text = library.stats(device), library.explain(device)
    shim.stalloc_free(block, _BYTES, device, None)
    return {"seconds": seconds, "fallback": stats.fallback, "explain": text, "engine": _engine()}


def _engine() -> str:
    """The path of the engine's library that this process has loaded."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "engine" in line and line.rstrip().endswith(".so"):
                return line.split(maxsplit=5)[-1].strip()
    return ""


def main() -> int:
    try:
        found = trial(int(sys.argv[1]))
    except (StallocError, OSError) as error:
        found = {"error": str(error)}
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
