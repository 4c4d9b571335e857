"""Steps of an active session, and warnings about fallbacks.

If the engine cannot serve (it does not open, or a bug broke it), plain driver allocations do, and
training goes on without stalloc's benefits. The library logs that on standard error; here it
becomes a Python warning, or with strict an error.
"""

import warnings
from types import ModuleType

from ._errors import StallocError, StallocWarning
from ._library import Library
from ._stats import Stats

# The counters are read after steps 1, 2, 4, 8, ... and then every 64th: reading them
# asks the engine, and a fallback that lasts is seen early all the same.
_EVERY = 64


class Watch:
    """Ends steps, and reports fallbacks: by one warning, or by an error at every check."""

    def __init__(self, library: Library, torch: ModuleType, strict: bool) -> None:
        self._library, self._torch, self._strict = library, torch, strict
        self._steps = 0
        self._warned = False

    def step(self) -> None:
        """Ends a training step.

        Raises:
            StallocError: plain driver allocations served requests, and the session is strict.
        """
        self._library.step()
        self._steps += 1
        if self._steps % _EVERY == 0 or self._steps & (self._steps - 1) == 0:
            self._look()

    def stats(self, device: int) -> Stats:
        """The counters; warns if they show fallbacks."""
        stats = self._library.stats(device)
        if stats.fallback and not self._strict:
            self._warn(device, stats)
        return stats

    def _look(self) -> None:
        if self._warned or not self._torch.cuda.is_initialized():
            return
        for device in range(self._torch.cuda.device_count()):
            stats = self.stats(device)
            if stats.fallback and self._strict:
                raise StallocError(self._message(device, stats))

    def _warn(self, device: int, stats: Stats) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(self._message(device, stats), StallocWarning, stacklevel=4)

    def _message(self, device: int, stats: Stats) -> str:
        return (
            f"stalloc: plain driver allocations served {stats.fallback:,} requests on "
            f"cuda:{device}: {self._library.explain(device)}"
        )
