"""Memory that stalloc.pause() does not touch: of private pools and PyTorch's own, by kind."""

import os
import sys
from collections.abc import Iterable, Iterator

from . import _adapter, _config, _nccl, _rank
from ._stats import size


def table(device: int) -> str:
    """For explain(): one row per kind, like the library's tables. Empty: nothing is held."""
    kinds = _kinds(device)
    if not kinds:
        return ""
    lines = ["\nAwake when the rest sleeps, of private pools and PyTorch's own allocator:"]
    for kind, held in kinds.items():
        number, unit = size(sum(held)).split(" ")
        lines.append(f"  {kind:<34} {number:>8} {unit:<3}  {_count(held)}")
    return "\n".join(lines) + "\n"


def log(devices: Iterable[int]) -> None:
    """For pause(): one log line per device; the library logs its own part."""
    conf = os.environ.get(_config.VARIABLE, "")
    if _config.value_of("log", conf) not in ("debug", "info"):
        return
    for device in devices:
        kinds = _kinds(device).items()
        said = [f"{kind} {size(sum(held))} ({_count(held)})" for kind, held in kinds]
        if said:
            text = f"{_rank.name()}: cuda:{device}: these pools stay awake: "
            print(text + ", ".join(said), file=sys.stderr, flush=True)


def _kinds(device: int) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for pool, held in sorted(_adapter.held(device).items()):
        kinds.setdefault(_kind(pool), []).append(held)
    return kinds


def _kind(pool: tuple[int, int]) -> str:
    if pool == (0, 0):
        return "older than stalloc, or moved"
    if pool in _nccl.pools:
        return "NCCL's windows" if any(_nccl.pools[pool]) else "registered with NCCL"
    if pool in _symmetric():
        return "symmetric memory"
    # The first is a graph's own. A handle for several graphs looks like a MemPool.
    return "CUDA graphs" if pool[1] == 0 else "MemPools, pools that graphs share"


def _symmetric() -> Iterator[tuple[int, int]]:
    module = sys.modules.get("torch.distributed._symmetric_memory")
    return (pool.id for pool in getattr(module, "_symm_mem_pools", {}).values())


def _count(held: list[int]) -> str:
    return f"{len(held)} pool{'s' if len(held) > 1 else ''}"
