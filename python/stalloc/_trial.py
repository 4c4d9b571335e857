"""One block from the libraries, in a process of its own: `stalloc doctor` looks how it went.

Prints a JSON object. What ends this process, a fault in a driver for example, is seen by its
parent.
"""

import ctypes
import json
import sys
import time

from . import _native
from ._errors import StallocError

_BYTES = 2 << 20


def trial(device: int) -> dict[str, object]:
    """What a first request comes to: how long it took, and who served it."""
    native = _native.Native(_native.shim_path())
    native.init()
    library = ctypes.CDLL(native.path)
    library.stalloc_malloc.restype = ctypes.c_void_p
    library.stalloc_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.stalloc_free.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    begin = time.monotonic()
    block = library.stalloc_malloc(_BYTES, device, None)
    seconds = time.monotonic() - begin
    if not block:
        raise StallocError(native.last_error())
    stats, text = native.stats(device), native.explain(device)
    library.stalloc_free(block, _BYTES, device, None)
    return {"seconds": seconds, "fallback": stats.fallback, "explain": text, "engine": _engine()}


def _engine() -> str:
    """The engine's library as it is loaded here."""
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
