"""The summary of a run, printed once when it ends.

STALLOC_SUMMARY in the environment, which child processes inherit, is "off" or the name of a file
for the counters as JSON (%r in it is the rank). Processes in which stalloc served nothing, such
as launchers and data loaders, print nothing.
"""

import atexit
import json
import os
import sys

from . import _rank, _session
from ._output import Output
from ._stats import Stats, size

VARIABLE = "STALLOC_SUMMARY"


_owner = 0  # the process that writes it; a forked child inherits the handler only
_promised = False  # to the user, so a line says if there is no summary


def at_exit(promised: bool = False) -> None:
    """Prints the summary once, when this process ends.

    `promised`: the user ran this very process under stalloc, so a line says if it served nothing.
    """
    global _owner, _promised
    _promised = promised
    if _owner != os.getpid():
        _owner = os.getpid()
        atexit.register(_end)


def _end() -> None:
    where = os.environ.get(VARIABLE, "")
    if os.getpid() != _owner or where == "off":
        return
    devices = served()
    if _promised and not devices:
        file = f"; {where} is not written" if where else ""
        print(f"stalloc run: this process used no CUDA memory{file}", file=sys.stderr)
    for device, stats in devices.items():
        print(line(device, stats), file=sys.stderr)
    if devices and where:
        try:
            write(where, devices)
        except OSError as error:
            print(f"{_rank.name()}: {VARIABLE}={where}: {error}", file=sys.stderr)


def served() -> dict[int, Stats]:
    """The counters of the devices that had requests."""
    session = _session._session
    library, torch = session.binding or session.closed, session.torch
    if library is None or torch is None or not torch.cuda.is_initialized():
        return {}
    every = {device: library.stats(device) for device in range(torch.cuda.device_count())}
    return {device: stats for device, stats in every.items() if stats.requests}


def line(device: int, stats: Stats) -> str:
    """One line per device, so that those of several ranks do not mix."""
    text = (
        f"{_rank.name()}: cuda:{device}: reserved at most {size(stats.peak_reserved)} for "
        f"{size(stats.peak_allocated)} allocated ({stats.fragmentation:.2%} waste); "
        f"{f'native {stats.native()}; ' if stats.native() else ''}"
        f"{stats.requests:,} requests in {stats.steps:,} steps, {stats.served()}; "
        f"driver {stats.driver_ns / 1e9:.2f} s"
    )
    if stats.backup:
        text += f"; {size(stats.backup)} of host memory kept"
    return text + (f"; {stats.fallback:,} plain driver allocations" if stats.fallback else "")


def write(where: str, devices: dict[int, Stats]) -> None:
    """Writes the counters as JSON. Each of several ranks has its own file, with or without %r."""
    name = _rank.expand(where)
    rank = _rank.rank()
    if name == where != "-" and rank is not None and _rank.world_size() > 1:
        name = f"{where}.{rank}"
    counters = {str(device): stats.as_dict("") for device, stats in devices.items()}
    with Output(name).whole() as out:
        out.write(f"{json.dumps({'rank': rank, 'devices': counters}, indent=1)}\n".encode())
