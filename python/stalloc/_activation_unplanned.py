"""What moves in a cycle without a plan: all that is saved leaves, and what was saved last comes
back first. A window of bytes is on its way out, and as many come back ahead of their use."""

from collections import deque
from typing import Any, Optional

from ._activation_plan import LEAST
from ._activation_saved import Record
from ._activation_storages import Storages

_WINDOW = 16  # one part in so many of the limit


class Unplanned:
    """One cycle's records that are under way. The caller has the device's lock."""

    def __init__(self, storages: Storages, link: Any, limit: int) -> None:
        self._storages, self._link = storages, link
        self._window = max(limit // _WINDOW, 2 * LEAST)
        self._leaving: deque[Record] = deque()
        self._out = self._ahead = 0  # bytes on their way out; and back before they are needed
        self._next: Optional[int] = None  # the items below come back next

    def is_busy(self, size: int) -> bool:
        """Whether so many bytes more are too many for the link, as far as the host sees."""
        return self._out + size > self._window

    def leaves(self, record: Record) -> None:
        """The record's copy out has begun."""
        self._leaving.append(record)
        self._out += record.size

    def saved(self) -> None:
        """A place at which something is saved: what has left gives up its memory."""
        while self._leaving:
            first = self._leaving[0]
            waits = first.out is not None and self._out <= self._window
            if waits and not self._link.passed(first.out):
                break
            self._out -= self._leaving.popleft().size
            self._storages.drop(first)

    def needed(self, record: Record, records: list[Optional[Record]]) -> None:
        """A place at which a record is needed: others come back, of all those of the cycle."""
        if record.ahead:
            self._ahead -= record.size
            record.ahead = False
        if self._next is None:
            self._next = len(records)
        while self._next > 0 and self._ahead < self._window:
            self._next -= 1
            other = records[self._next]
            if other is not None and other.flat is None:
                self._storages.come_back(other)
                other.ahead = other.flat is not None
                self._ahead += other.size * other.ahead
