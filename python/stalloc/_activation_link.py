"""The device side of offloading: copies over streams of our own, marks, and the load.

Everything is ordered by the compute stream, so the host never waits. A copy out begins after an
event on that stream, and its memory is given up where that stream waits for the copy: from there on
it is free in stream order, under any allocator. record_stream() would keep it until the host sees
that the event has completed, too late for a host that is ahead of the device by a forward pass. A
copy back goes into memory of that stream, so it begins after an event, too.
"""

import threading
from typing import Any, Optional

from . import _host_memory

_SAFE = 0.95  # of the link's measured rate, which plans count on


class Link:
    """One device's streams and host memory."""

    def __init__(self, torch: Any, device: int) -> None:
        self._torch, self.device = torch, torch.device("cuda", device)
        self.home = torch.cuda.current_stream(self.device)
        self._out = torch.cuda.Stream(self.device)
        self._back = torch.cuda.Stream(self.device)
        self.host = _host_memory.HostMemory(lambda size: _host_memory.pin(torch, size))
        self.timed = False  # copies are timed
        self._times: dict[str, list[tuple[Any, Any, int]]] = {"out": [], "back": []}
        self._lock = threading.Lock()
        self.peak = 0  # seen so far

    def usable(self, begins: bool) -> bool:
        """Whether what is saved now may move: on the stream that began the cycle, not captured."""
        now = self._torch.cuda.current_stream(self.device)
        if begins:
            self.home = now
        return bool(now == self.home and not self._torch.cuda.is_current_stream_capturing())

    def mark(self) -> Any:
        """A mark on the device's time: an event on the current stream."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self.device))
        return event

    def between(self, marks: list[Any]) -> list[int]:
        """When marks were passed, in ns since the first. Waits for all."""
        for mark in marks:
            mark.synchronize()
        return [int(marks[0].elapsed_time(mark) * 1e6) for mark in marks]

    def leave(self, memory: Any, to: Any) -> Any:
        """Copies a storage's bytes to the host; returns the event after that."""
        memory.record_stream(self.home)  # it may be another stream's
        return self._copy("out", self._out, to, memory)

    def back(self, source: Any) -> tuple[Any, Any]:
        """Copies bytes back, into memory that is allocated now; returns it with the event."""
        memory = self._torch.empty_like(source, device=self.device)
        return memory, self._copy("back", self._back, memory, source)

    def release(self, memory: Any) -> None:
        """Gives memory up: it serves others once its copies are done."""
        for stream in (self._out, self._back):
            memory.record_stream(stream)

    def passed(self, event: Any) -> bool:
        """Whether the device has passed the event."""
        return bool(event.query())

    def _copy(self, way: str, stream: Any, to: Any, source: Any) -> Any:
        cuda = self._torch.cuda
        stream.wait_stream(cuda.current_stream(self.device))
        with cuda.stream(stream):
            begun = cuda.Event(enable_timing=True) if self.timed else None
            if begun is not None:
                begun.record()
            to.copy_(source, non_blocking=True)
            done = cuda.Event(enable_timing=self.timed)
            done.record()
        if begun is not None:
            with self._lock:
                self._times[way].append((begun, done, source.numel()))
        return done

    def wait(self, event: Any) -> None:
        """What the program does from here on waits for the event; the host does not."""
        self._torch.cuda.current_stream(self.device).wait_event(event)

    def rate(self, way: str) -> Optional[float]:
        """Bytes a second of the copies that were timed, "out" or "back"; None if there are none."""
        with self._lock:
            passed = [time for time in self._times[way] if time[1].query()]
            self._times[way] = self._times[way][-256:]
        seconds = sum(begun.elapsed_time(done) for begun, done, _ in passed) / 1e3
        return _SAFE * sum(size for _, _, size in passed) / seconds if seconds else None

    def allocated(self) -> int:
        """Bytes of live tensors."""
        return int(self._stats()["allocated_bytes"]["all"]["current"])

    def load(self) -> int:
        """The most bytes of live tensors since the last call. Resets PyTorch's peaks."""
        most = int(self._stats()["allocated_bytes"]["all"]["peak"])
        self.peak = max(self.peak, most)
        self._torch.cuda.reset_peak_memory_stats(self.device)
        return most

    def most(self) -> int:
        """The most bytes of live tensors so far."""
        self.peak = max(self.peak, int(self._stats()["allocated_bytes"]["all"]["peak"]))
        return self.peak

    def retries(self) -> int:
        """How often a request was tried again because memory was short."""
        return int(self._stats().get("num_alloc_retries", 0))

    def _stats(self) -> Any:
        return self._torch.cuda.memory.memory_stats_as_nested_dict(self.device)


def limit(torch: Any, device: int) -> int:
    """What this process may hold: PyTorch's fraction of the device, and what is free of it."""
    free, total = torch.cuda.mem_get_info(device)
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)
    reserved = int(torch.cuda.memory_reserved(device))
    return min(int(total * fraction(device)), int(free) + reserved)
