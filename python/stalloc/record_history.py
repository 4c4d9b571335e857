"""Reads PyTorch's memory history, a ring buffer of entries, before it overflows.

Each read begins by setting a mark, so the next read knows exactly where this one ended, whatever
other threads do meanwhile. A mark is an allocation of a size that nothing else uses, on a separate
stream, freed at once. The stream's cached memory serves it every time, so marks need no memory from
the driver, even during a graph capture. One live block keeps that memory through empty_cache().
"""

import contextlib
import gc
import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Optional

from ._errors import StallocError
from .record_poll import POLL_BYTES
from .record_stacks import Stacks

# A prime: no tensor has that size unless its elements are single bytes.
MARK_BYTES = 1_000_003

# Bytes of an entry: in the ring, and as the dictionary that a read makes of it. A stack of fifty
# frames takes the same again, and more while it is read.
ENTRY_BYTES = 1000
STACK_BYTES = 2000

Entry = Mapping[str, Any]


class History:
    """The marks and the entries of one device, from start() to stop()."""

    def __init__(self, torch: ModuleType, device: int, entries: int, stacks: bool = False) -> None:
        self._torch, self._device, self._most, self._stacks = torch, device, entries, stacks
        self.stream = torch.cuda.Stream(device=device)
        self._stream = self.stream.cuda_stream
        self._kept: Optional[int] = None
        self._lock = threading.RLock()
        self._marks = 0  # set so far
        self._seen = 0  # of them, up to the last read
        self._counted = 0  # events that PyTorch had counted by then

    def start(self) -> None:
        memory = self._torch.cuda.memory
        self._kept = self._torch.cuda.caching_allocator_alloc(
            POLL_BYTES, self._device, self._stream
        )
        how = {"context": "alloc", "stacks": "python"} if self._stacks else {"context": None}
        memory._record_memory_history(enabled="all", max_entries=self._most, **how)
        self.mark()
        self._seen, self._counted = 1, self.count()

    def stop(self) -> None:
        self._torch.cuda.memory._record_memory_history(enabled=None)
        self._torch.cuda.caching_allocator_delete(self._kept)

    def mark(self) -> int:
        """Sets a mark after all present entries. Returns its number, from 0."""
        cuda = self._torch.cuda
        with self._lock:
            block = cuda.caching_allocator_alloc(MARK_BYTES, self._device, self._stream)
            cuda.caching_allocator_delete(block)
            self._marks += 1
            return self._marks - 1

    def count(self) -> int:
        """About how many entries there have been, from PyTorch's own counters."""
        stats = self._torch.cuda.memory_stats(self._device)
        return int(
            stats.get("allocation.all.allocated", 0)
            + 2 * stats.get("allocation.all.freed", 0)  # requested, and completed
            + stats.get("segment.all.allocated", 0)
            + stats.get("segment.all.freed", 0)
        )

    def due(self) -> bool:
        """Whether it is time to read: a third of the ring is new."""
        return self.count() - self._counted > self._most // 3

    def look(self) -> list[Entry]:
        """The program's entries since the last read. A mark is an entry whose action is its number.

        Raises:
            StallocError: the ring has overflowed since, so entries are lost.
        """
        with self._lock:
            counted = self.count()
            self.mark()
            with _naming(self._torch) if self._stacks else contextlib.nullcontext():
                history = self._torch.cuda.memory._snapshot()["device_traces"][self._device]
            last, self._seen = self._seen, self._marks
            self._counted = counted
        places = [i for i, entry in enumerate(history) if self._is_mark(entry)]
        new = self._marks - last  # marks after the one that ended the last read
        if len(places) < new + 1:
            raise StallocError(
                f"stalloc record: more than {self._most:,} requests and frees came before they "
                f"could be looked at, so some are lost; raise --memory"
            )
        first = places[-new - 1]
        numbers = dict(zip(places[-new:], range(last, self._marks)))
        return [
            {"action": numbers[i]} if i in numbers else history[i]
            for i in range(first + 1, places[-1])
            if i in numbers or not self._is_own(history[i])
        ]

    def _is_own(self, entry: Entry) -> bool:
        own = entry.get("stream") == self._stream
        return own and entry.get("size") in (MARK_BYTES, POLL_BYTES)

    def _is_mark(self, entry: Entry) -> bool:
        return bool(
            entry["action"] == "alloc"
            and entry["size"] == MARK_BYTES
            and entry.get("stream") == self._stream
        )


class _Inductor(ModuleType):
    """Replaces torch._inductor before its import: empty for one thread, real for others."""

    reader: Optional[int] = None

    def __getattr__(self, name: str) -> Any:
        if threading.get_ident() == self.reader:
            raise AttributeError(name)
        return getattr(importlib.import_module("torch._inductor"), name)


@contextlib.contextmanager
def _naming(torch: ModuleType) -> Iterator[None]:
    """A context in which PyTorch names frames cheaply.

    It stops the garbage collector, which would scan all lists of frames again and again while they
    are built. And it hides torch._inductor, which PyTorch would import to name frames of compiled
    code even if nothing is compiled: a second of CPU time, and 900 modules.
    """
    collects = gc.isenabled()
    gc.disable()
    stand_in = _Inductor("torch._inductor")
    stand_in.reader = threading.get_ident()
    if "torch._inductor" not in sys.modules:
        torch._inductor = stand_in  # type: ignore[attr-defined]
    try:
        yield
    finally:
        stand_in.reader = None
        if vars(torch).get("_inductor") is stand_in:  # nobody has imported it meanwhile
            del torch._inductor
        if collects:
            gc.enable()


class Lines:
    """Turns entries, read by read, into lines of the trace; a mark's line is "#" and its number.

    Frees of blocks that are older than the history are left out. A block whose address is
    allocated again has been freed, whether the history has its free or not.
    """

    def __init__(self, stacks: Optional[Stacks] = None) -> None:
        self.events = 0
        self._stacks = stacks
        self._live: dict[int, tuple[int, bool]] = {}  # by address: the id, whether freed
        self._streams = {0: 0}
        self._begin: Optional[int] = None
        self._micros = 0
        self._blocks = 0

    def of(self, entries: Sequence[Entry]) -> Iterator[str]:
        if self._stacks is not None:
            self._stacks.look()
        for entry in entries:
            action = entry["action"]
            if isinstance(action, int):
                yield f"#{action}"
                continue
            for line in self._lines(entry):
                self.events += line[0] != "k"
                yield line

    def _lines(self, entry: Entry) -> Iterator[str]:
        action, address, live = entry["action"], entry.get("addr", -1), self._live
        if self._begin is None:
            if action != "alloc":
                return
            self._begin = entry["time_us"]
        # PyTorch calibrates its clock at each read, so a later entry may seem a little earlier.
        self._micros = micros = max(self._micros, entry["time_us"] - self._begin)
        if action == "alloc":
            if address in live:
                yield from _end(live.pop(address), micros)
            stream = self._streams.setdefault(entry.get("stream", 0), len(self._streams))
            live[address] = (self._blocks, False)
            line = f"a,{self._blocks},{entry['size']},{stream},{micros}"
            if self._stacks is not None:
                number, before = self._stacks.number(entry.get("frames", ()))
                if before:
                    yield from before
                if number is not None:
                    line += f",{number}"
            yield line
            self._blocks += 1
        elif action == "free_requested" and address in live and not live[address][1]:
            live[address] = (live[address][0], True)
            yield f"r,{live[address][0]},{micros}"
        elif action == "free_completed" and address in live:
            yield from _end(live.pop(address), micros)


def _end(block: tuple[int, bool], micros: int) -> Iterator[str]:
    number, requested = block
    if not requested:
        yield f"r,{number},{micros}"
    yield f"f,{number},{micros}"
