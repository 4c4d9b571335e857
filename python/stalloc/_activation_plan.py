"""What of a step's saved tensors leaves the device: from an observed cycle to a schedule.

A cycle is a forward pass, or several, and the backward passes that need what they saved. Its
places are the moments at which the program is seen: a storage is saved, or needed for the first
time. Memory only changes hands at places, in the order of the program. Between two places the load
is the highest that was seen there. No PyTorch in here.
"""

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Callable, Optional

LEAST = 1 << 20  # nothing smaller moves


@dataclasses.dataclass
class Item:
    """A saved storage; all but the size are places."""

    size: int
    idle: int  # saved for the last time
    need: Optional[int] = None  # None: nothing has needed it
    drop: Optional[int] = None  # its memory was given up
    back: Optional[int] = None  # and taken again
    held: bool = False  # the program held it anyway: leaving gains nothing


class Cycle:
    """What was seen of a cycle."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.sequence: list[int] = []  # by place: the size that was saved, or -1 - what was needed
        self.marks: list[Any] = []  # by place: a mark on the device's time, if observed
        self.peaks: list[int] = []  # by place: the most bytes until the next one
        self.steady = True  # no host memory was pinned meanwhile, which takes long
        self.stalls: list[tuple[int, Any, Any]] = []  # place, marks around a wait behind it

    def save(self, size: int) -> int:
        """A place at which so many bytes are saved; returns the item's number."""
        self.items.append(Item(size, len(self.sequence)))
        self.sequence.append(size)
        return len(self.items) - 1

    def need(self, number: int) -> None:
        """A place at which an item is needed."""
        self.items[number].need = len(self.sequence)
        self.sequence.append(-1 - number)

    @property
    def place(self) -> int:
        """The last place."""
        return len(self.sequence) - 1

    def movable(self) -> list[int]:
        """The items for which leaving can gain something."""
        return [
            number
            for number, item in enumerate(self.items)
            if item.need is not None and item.need > item.idle + 1 and not item.held
        ]

    def loads(self) -> list[int]:
        """By place: the bytes of everything but idle items."""
        change = [0] * (len(self.sequence) + 1)
        for number in self.movable():
            item = self.items[number]
            need = item.need or 0
            for start, end in ((item.idle, item.drop or need), (item.back or need, need)):
                if start < end:
                    change[start] -= item.size
                    change[end] += item.size
        return [peak + idle for peak, idle in zip(self.peaks, accumulate(change))]

    def idle(self) -> list[int]:
        """By place: the bytes that are idle, wherever they are."""
        change = [0] * (len(self.sequence) + 1)
        for number in self.movable():
            item = self.items[number]
            change[item.idle] += item.size
            change[item.need or 0] -= item.size
        return list(accumulate(change[:-1]))

    def whole(self) -> int:
        """The peak if nothing had moved."""
        return max(map(sum, zip(self.loads(), self.idle())), default=0)

    def times(self, between: Callable[[list[Any]], list[int]]) -> list[int]:
        """By place: when the device came there, in ns, without its waits for copies."""
        flat = [mark for _, before, after in self.stalls for mark in (before, after)]
        moments = between([*self.marks, *flat])
        waited = [0] * (len(self.marks) + 1)
        ends = iter(moments[len(self.marks) :])
        for (place, _, _), before, after in zip(self.stalls, ends, ends):
            waited[place + 1] += after - before
        passed = accumulate(waited[:-1])
        # No two places have the same time.
        return [at - late + place for place, (at, late) in enumerate(zip(moments, passed))]


def problem(
    cycles: Sequence[Cycle], times: Sequence[int], limit: int, out: float, back: float
) -> dict[str, Any]:
    """The problem for the planner: cycles of one sequence, the last one's times, bytes a second."""
    last = cycles[-1]
    loads = [max(at) for at in zip(*(cycle.loads() for cycle in cycles))]
    # Where nothing is idle nothing can leave: a peak there, as in the optimizer's step, must not
    # make the plan impossible.
    loads = [load if idle else min(load, limit) for load, idle in zip(loads, last.idle())]
    items = []
    for number in last.movable():
        item = last.items[number]
        assert item.need is not None
        items.append({"Size": item.size, "Idle": times[item.idle], "Need": times[item.need]})
    return {
        "Limit": limit,
        "Handle": LEAST,
        "Link": {"Out": max(1, int(out)), "Back": max(1, int(back))},
        "Load": [{"From": at, "Bytes": max(0, load)} for at, load in zip(times, loads)],
        "Items": items,
    }


@dataclasses.dataclass
class Schedule:
    """What a cycle of this sequence does at its places."""

    sequence: list[int]
    leave: frozenset[int]  # items
    drops: dict[int, list[int]]  # by place: items whose memory is given up
    backs: dict[int, list[int]]  # by place: items that come back
    left: int = 0  # bytes
    peak: int = 0
    wait: int = 0  # ns
    over: int = 0  # bytes above the limit, if it cannot be kept


def schedule(cycle: Cycle, times: Sequence[int], plan: dict[str, Any], limit: int) -> Schedule:
    """A planned cycle by place.

    Memory is given up at the first place after the copy has ended, and taken again at the last
    one before the copy back begins: between two places the load does not change.
    """
    moments, delay, waits = [], 0, [(wait["At"], wait["For"]) for wait in plan["Waits"]]
    for at in times:
        while waits and waits[0][0] <= at:
            delay += waits.pop(0)[1]
        moments.append(at + delay)
    numbers = cycle.movable()
    away: dict[int, tuple[int, int]] = {}  # by item: from a place until another
    for move in plan["Moves"]:
        number = numbers[move["Item"]]
        need = cycle.items[number].need
        assert need is not None
        drop = max(bisect_left(moments, move["OutUntil"]), cycle.items[number].idle + 1)
        away[number] = drop, min(bisect_right(moments, move["BackFrom"]) - 1, need)
    _delay_backs(cycle, away, limit)
    drops: dict[int, list[int]] = {}
    backs: dict[int, list[int]] = {}
    for number in sorted(away, key=lambda number: cycle.items[number].need or 0):
        drop, back = away[number]
        drops.setdefault(drop, []).append(number)
        backs.setdefault(back, []).append(number)
    return Schedule(
        cycle.sequence, frozenset(away), drops, backs, plan["Left"], plan["Peak"], plan["Wait"]
    )


def _delay_backs(cycle: Cycle, away: dict[int, tuple[int, int]], limit: int) -> None:
    """What would come back above the limit, while others still leave, comes at a later place."""
    change = [0] * (len(cycle.sequence) + 1)
    for number in cycle.movable():
        item = cycle.items[number]
        change[item.idle] += item.size
        change[item.need or 0] -= item.size
    coming: dict[int, list[int]] = {}
    for number, (drop, back) in away.items():
        change[drop] -= cycle.items[number].size
        change[back] += cycle.items[number].size
        coming.setdefault(back, []).append(number)
    idle = 0
    for place, load in enumerate(cycle.loads()):
        idle += change[place]
        for number in coming.get(place, ()):
            item = cycle.items[number]
            if load + idle > limit and place < (item.need or 0):
                idle -= item.size
                change[place + 1] += item.size
                coming.setdefault(place + 1, []).append(number)
                away[number] = away[number][0], place + 1
    for number, (drop, back) in list(away.items()):
        if back <= drop:
            del away[number]
