"""Pinned host memory that is kept: pinning takes 0.6 s a GB.

Slabs are pinned as they are needed, and handed out in pieces. A piece that was given back may be
handed out at once: all copies into it are on one stream, and reading it has been awaited.
"""

import dataclasses
import mmap
import os
from typing import Any, Callable, Optional

SLAB = 256 << 20
_ALIGNED = 4096
_SPARE = 10  # of the host's memory, one part in so many stays free


@dataclasses.dataclass
class Piece:
    """Bytes of a slab; `memory` is a tensor of them."""

    slab: int
    offset: int
    size: int
    memory: Any


class HostMemory:
    """`pin` makes a slab: a tensor of so many bytes, or None where the host has no more."""

    def __init__(self, pin: Callable[[int], Any]) -> None:
        self._pin = pin
        self._slabs: list[Any] = []
        self._free: list[list[tuple[int, int]]] = []  # by slab: (offset, size), ascending
        self.pinned = 0  # bytes

    def take(self, size: int) -> Optional[Piece]:
        """A piece, the first that fits; None where the host has no more."""
        rounded = -(-size // _ALIGNED) * _ALIGNED
        for slab, free in enumerate(self._free):
            for place, (offset, there) in enumerate(free):
                if there >= rounded:
                    free[place : place + 1] = (
                        [(offset + rounded, there - rounded)] if there > rounded else []
                    )
                    return self._piece(slab, offset, rounded, size)
        memory = self._pin(max(SLAB, rounded))
        if memory is None:
            return None
        self.pinned += max(SLAB, rounded)
        self._slabs.append(memory)
        left = max(SLAB, rounded) - rounded
        self._free.append([(rounded, left)] if left else [])
        return self._piece(len(self._slabs) - 1, 0, rounded, size)

    def give(self, piece: Piece) -> None:
        """Takes a piece back."""
        free = self._free[piece.slab]
        free.append((piece.offset, piece.size))
        free.sort()
        merged = [free[0]]
        for offset, size in free[1:]:
            before, there = merged[-1]
            if before + there == offset:
                merged[-1] = (before, there + size)
            else:
                merged.append((offset, size))
        self._free[piece.slab] = merged

    def _piece(self, slab: int, offset: int, rounded: int, size: int) -> Piece:
        return Piece(slab, offset, rounded, self._slabs[slab][offset : offset + size])


def pin(torch: Any, size: int) -> Any:
    """Pinned memory for CUDA in huge pages, as a tensor of bytes; None if there is none.

    PyTorch's own pinned memory is rounded up to a power of two. A forked child does not have it:
    its pages would be copied when they are written.
    """
    if size > _available():
        return None
    try:
        region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
        if hasattr(mmap, advice):
            region.madvise(getattr(mmap, advice))
    memory = torch.frombuffer(region, dtype=torch.uint8)
    if int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0)) != 0:
        return None
    return memory


def _available(root: str = "/") -> int:
    """What the host, and the control groups of this process, can spare, as in live/hostmem."""
    rows = _numbers(os.path.join(root, "proc/meminfo"))
    spare = 1 << 62
    if "MemAvailable:" in rows:
        spare = (rows["MemAvailable:"] - rows.get("MemTotal:", 0) // _SPARE) << 10
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, kind, group = line.split(":", 2)
        if kind == "memory":  # the first version
            top, files = "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        elif number == "0":
            top, files = "sys/fs/cgroup", ("memory.max", "memory.current")
        else:
            continue
        # Every group above has a limit of its own. In a container the path may be the host's, and
        # the top is the group's.
        names = [name for name in group.split("/") if name]
        for depth in range(len(names) + 1):
            folder = os.path.join(root, top, *names[:depth])
            most, used = (_text(os.path.join(folder, file)).strip() for file in files)
            if most.isdigit() and used.isdigit():
                cache = _numbers(os.path.join(folder, "memory.stat")).get("inactive_file", 0)
                spare = min(spare, int(most) - int(most) // _SPARE - int(used) + cache)
    return spare


def _numbers(path: str) -> dict[str, int]:
    """The first number of each line, by what is before it."""
    rows = [line.split() for line in _text(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
