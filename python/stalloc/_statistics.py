"""torch.cuda's memory statistics, answered by stalloc.

Under a pluggable allocator every statistic of PyTorch raises, and frameworks call them in the
middle of training. torch.cuda.memory_stats, memory_allocated, max_memory_reserved,
memory_summary, reset_peak_memory_stats and the like all use a few functions of torch._C, which
they look up at each call. Replacing those works for every caller, however it imported the public
functions.

PyTorch divides blocks into a small and a large pool. stalloc counts everything as large, so that
the sums agree.
"""

import threading
from types import ModuleType
from typing import Any, Callable

from ._library import Library
from ._stats import Stats

# A segment is what the allocator takes from the driver at a time: one handle.
_HANDLE_BYTES = 2 << 20

_Nested = dict[str, Any]


class Answers:
    """Answers for the functions of torch._C, in the native allocator's form."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._since: dict[int, Stats] = {}
        self._fractions: dict[int, float] = {}

    def memory_stats(self, device: int) -> _Nested:
        with self._lock:
            since = self._since.get(device, Stats())
        return nested(self._library.stats(device), since)

    def reset_peak(self, device: int) -> None:
        self._library.reset_peak(device)

    def reset_accumulated(self, device: int) -> None:
        now = self._library.stats(device)
        with self._lock:
            self._since[device] = now

    def fraction(self, device: int) -> float:
        return self._fractions.get(device, 1.0)

    def remember_fraction(self, fraction: float, device: int) -> None:
        self._fractions[device] = fraction


def nested(stats: Stats, since: Stats) -> _Nested:
    """The native allocator's dictionary. Totals count from `since`.

    stalloc keeps totals only of allocated bytes and blocks. Other totals are the smallest that are
    consistent with the rest: their peak was allocated once, and freed down to the present value.
    What stalloc does not have (oversize blocks) is zero.
    """
    blocks = stats.blocks_total - since.blocks_total
    freed_blocks = blocks - (stats.blocks - since.blocks)
    allocated = stats.allocated_total - since.allocated_total
    freed = stats.freed_total - since.freed_total
    idle = stats.reserved - stats.active
    segments, peak_segments = stats.reserved // _HANDLE_BYTES, stats.peak_reserved // _HANDLE_BYTES
    return {
        "allocation": _pools(stats.blocks, stats.peak_blocks, blocks, freed_blocks),
        "segment": _least(segments, peak_segments),
        "active": _pools(stats.blocks, stats.peak_blocks, blocks, freed_blocks),
        "inactive_split": _pools(0, 0, 0, 0),
        "allocated_bytes": _pools(stats.allocated, stats.peak_allocated, allocated, freed),
        "reserved_bytes": _least(stats.reserved, stats.peak_reserved),
        "active_bytes": _least(stats.active, stats.peak_active),
        "inactive_split_bytes": _least(idle, idle),
        "requested_bytes": _least(stats.requested, stats.peak_requested),
        "oversize_allocations": _stat(0, 0, 0, 0),
        "oversize_segments": _stat(0, 0, 0, 0),
        "max_split_size": -1,
        "num_alloc_retries": stats.retries - since.retries,
        "num_ooms": stats.ooms - since.ooms,
        "num_sync_all_streams": 0,
        # Calls of the driver of every kind, mappings and releases among them.
        "num_device_alloc": stats.driver_calls - since.driver_calls,
        "num_device_free": 0,
        # Our own, for whoever logs the whole dictionary.
        "stalloc": {
            "hits": stats.hits - since.hits,
            "misses": stats.misses - since.misses,
            "plan_generation": stats.plan_generation,
            "fallback": stats.fallback - since.fallback,
        },
    }


def _stat(current: int, peak: int, allocated: int, freed: int) -> dict[str, int]:
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


def _pools(current: int, peak: int, allocated: int, freed: int) -> _Nested:
    return {
        "all": _stat(current, peak, allocated, freed),
        "small_pool": _stat(0, 0, 0, 0),
        "large_pool": _stat(current, peak, allocated, freed),
    }


def _least(current: int, peak: int) -> _Nested:
    return _pools(current, peak, peak, peak - current)


# What a pluggable allocator cannot do in PyTorch, and what to do instead.
_HISTORY = (
    "To see where the memory is, use print(stalloc.explain()); to record a snapshot, run the "
    "same script once without stalloc.enable()."
)
_CHECKPOINT = "Run the code that needs it without stalloc.enable()."
_UNSUPPORTED = {
    "_cuda_memorySnapshot": _HISTORY,
    "_cuda_record_memory_history": _HISTORY,
    "_cuda_record_memory_history_legacy": _HISTORY,
    "_cuda_attach_out_of_memory_observer": (
        "Under stalloc, catch the RuntimeError 'CUDA out of memory' instead; its message says "
        "where the memory is."
    ),
    "_cuda_getCheckpointState": _CHECKPOINT,
    "_cuda_setCheckpointPoolState": _CHECKPOINT,
    "_cuda_checkPoolLiveAllocations": _CHECKPOINT,
}


def patch(torch: ModuleType, answers: Answers) -> None:
    """Replaces the functions behind torch.cuda's and torch.accelerator's memory statistics."""
    low = torch._C
    low._cuda_memoryStats = answers.memory_stats
    low._cuda_resetPeakMemoryStats = answers.reset_peak
    low._cuda_resetAccumulatedMemoryStats = answers.reset_accumulated
    _patch_fraction(low, answers)
    if hasattr(low, "_accelerator_getDeviceStats"):
        # These do not raise under a pluggable allocator: they silently answer 0.
        low._accelerator_getDeviceStats = answers.memory_stats
        low._accelerator_resetPeakStats = answers.reset_peak
        low._accelerator_resetAccumulatedStats = answers.reset_accumulated
        low._accelerator_isAllocatorInitialized = torch.cuda.is_initialized
        low._accelerator_emptyCache = low._cuda_emptyCache
    for name, remedy in _UNSUPPORTED.items():
        if hasattr(low, name):
            setattr(low, name, _with_remedy(getattr(low, name), remedy))


def _patch_fraction(low: Any, answers: Answers) -> None:
    """PyTorch can set a pluggable allocator's memory fraction but not read it: remembers it."""
    set_original = low._cuda_setMemoryFraction

    def set_fraction(fraction: float, device: int) -> None:
        set_original(fraction, device)
        answers.remember_fraction(fraction, device)

    low._cuda_setMemoryFraction = set_fraction
    low._cuda_getMemoryFraction = answers.fraction


def _with_remedy(function: Callable[..., Any], remedy: str) -> Callable[..., Any]:
    """The same function with an error that also says what to do."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if "CUDAPluggableAllocator" not in str(error):
                raise
            raise RuntimeError(f"{error} (stalloc is enabled. {remedy})") from error

    return call
