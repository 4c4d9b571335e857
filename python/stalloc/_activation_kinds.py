"""What is known of cycles, by kind, and a thread that plans them while the program runs."""

import queue
import sys
import threading
from collections.abc import Hashable
from typing import Any, Callable, Optional

from . import _residency
from ._activation_plan import Cycle, Schedule, problem, schedule

_OBSERVED = 3  # cycles of a kind are observed, with what was planned after each
_MOST = 64  # kinds that are kept
_SHARE = 256  # levels of the limit: a cycle that begins on another one is of another kind
RATE = 12e9  # bytes a second, until copies were timed


class Kind:
    """Cycles that begin with the same tensor, at about the same load."""

    def __init__(self) -> None:
        self.cycles: list[Cycle] = []  # of one sequence
        self.observed = 0
        self.schedule: Optional[Schedule] = None

    def settled(self, limit: int) -> bool:
        """Whether it need not be observed again: it was, often enough, or all fits easily."""
        plan = self.schedule
        fits = plan is not None and not plan.leave and plan.peak < 0.9 * limit
        return fits or plan is not None and self.observed >= _OBSERVED

    def forget(self) -> None:
        """The program does something else."""
        self.cycles, self.observed, self.schedule = [], 0, None


class Kinds:
    """The kinds of one device's cycles. `between` times a cycle's marks."""

    def __init__(self, limit: int, between: Callable[[list[Any]], list[int]]) -> None:
        self.limit, self._between = limit, between
        self._kinds: dict[Hashable, Kind] = {}
        self._queue: queue.Queue[tuple[Kind, Cycle, float, float]] = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self.largest = 0  # the most that a cycle so far would have needed if nothing had moved
        self._warned = False

    def find(self, first: Hashable, level: int) -> Kind:
        """The kind of a cycle that begins with a tensor, and so many bytes allocated."""
        key = (first, -(-level * _SHARE // self.limit))
        kind = self._kinds.pop(key, None) or Kind()
        self._kinds[key] = kind  # the last one used
        if len(self._kinds) > _MOST:
            del self._kinds[next(iter(self._kinds))]
        return kind

    def __len__(self) -> int:
        return len(self._kinds)

    def forget(self) -> None:
        """Memory was short: all is planned again."""
        for kind in self._kinds.values():
            kind.forget()

    def observed(
        self, kind: Kind, cycle: Cycle, out: Optional[float], back: Optional[float]
    ) -> None:
        """A cycle of the kind is over; the thread plans the next ones."""
        kind.observed += cycle.steady
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._plan, name="stalloc-plan", daemon=True)
            self._thread.start()
        self._queue.put((kind, cycle, out or RATE, back or RATE))

    def settle(self) -> None:
        """Waits until all that was observed is planned."""
        self._queue.join()

    def _plan(self) -> None:
        while True:
            kind, cycle, out, back = self._queue.get()
            try:
                self._learn(kind, cycle, out, back)
            except Exception as error:  # the program goes on without a plan
                self._warn(f"a step could not be planned: {error!r}")
            finally:
                self._queue.task_done()

    def _learn(self, kind: Kind, cycle: Cycle, out: float, back: float) -> None:
        self.largest = max(self.largest, cycle.whole())
        if kind.cycles and kind.cycles[-1].sequence != cycle.sequence:
            kind.cycles = []
        cycles = [*kind.cycles, cycle][-_OBSERVED:]
        for items in zip(*(one.items for one in cycles)):
            held = any(item.held for item in items)  # it shows only where the item left
            for item in items:
                item.held = held
        times = cycle.times(self._between)
        limit = self.limit - self.limit // _SHARE  # others of the kind may begin that much higher
        plan, over = {}, 0
        for _ in range(2):
            plan = _residency.solve(problem(cycles, times, limit + over, out, back))
            if not plan["Over"]:
                break
            over += plan["Over"]
        planned = schedule(cycle, times, plan, limit + over)
        planned.over = max(0, over - self.limit // _SHARE)
        if planned.over:
            self._warn(
                f"a step needs {planned.over >> 20} MiB more than the limit with all activations "
                f"on the host that can leave; recompute some of them, or make the batch smaller"
            )
        cycle.marks, cycle.stalls = [], []
        kind.cycles, kind.schedule = cycles, planned

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            print(f"stalloc: activations: {text}", file=sys.stderr, flush=True)
