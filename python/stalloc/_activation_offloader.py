"""One device's saved tensors: what leaves, by a plan or, as long as there is none, all of it."""

import sys
import threading
from collections import Counter
from typing import Any, Optional

from . import _activation_saved as saved
from ._activation_kinds import Kind, Kinds
from ._activation_plan import LEAST, Cycle, Schedule
from ._activation_storages import Storages
from ._activation_unplanned import Unplanned

_LONGEST = 1 << 16  # places of a cycle
_KNOWN = 4  # with so many kinds known, a new one is taken to need no more than the largest


class Offloader:
    """`link` copies and tells the time: Link, or a double in tests."""

    def __init__(self, torch: Any, link: Any, limit: int, always: bool = False) -> None:
        self._torch, self._link, self.always = torch, link, always
        self._storages = Storages(torch, link)
        self.kinds, self._given = Kinds(limit, link.between), limit
        self._lock = threading.RLock()  # tensors are released wherever Python collects garbage
        self._records: dict[int, saved.Record] = {}  # by storage
        self._numbers: list[Optional[saved.Record]] = []  # of the cycle, by item
        self._cycle: Optional[Cycle] = None
        self._kind: Optional[Kind] = None
        self._schedule: Optional[Schedule] = None  # None: all leaves
        self._observing = self._fits = False
        self.unpacked = False  # since the cycle began
        self._live = 0  # records of the cycle
        self._unplanned = Unplanned(self._storages, link, limit)
        self._retries = self._most = self._load = 0
        self._broken, self._pinned = False, 0
        self._counts: Counter[str] = Counter()
        self.stayed: Counter[str] = Counter()

    def counts(self) -> dict[str, Any]:
        """The fields of Activations."""
        with self._lock:
            plan = self._kind.schedule if self._kind is not None else None
            moved = self._storages
            counts: dict[str, Any] = dict(self._counts)
            counts.update(out=moved.out, back=moved.back, late=moved.late)
            if plan is not None:
                counts.update(leaving=plan.left, peak=plan.peak, over=plan.over)
                counts["wait"] = plan.wait / 1e9
            return {
                **counts,
                "host": self._link.host.pinned,
                "limit": self.kinds.limit,
                "stayed": dict(self.stayed),
            }

    def set_limit(self, limit: int) -> None:
        """Another limit: all is planned again."""
        with self._lock:
            if limit != self._given:
                self.kinds, self._given = Kinds(limit, self._link.between), limit
                self._cycle, self._fits = None, False

    def pack(self, tensor: Any) -> Any:
        """What autograd keeps of a tensor. The caller is called by autograd itself."""
        if self._fits and not self.unpacked or tensor.numel() * tensor.element_size() < LEAST:
            return saved.Kept(tensor, self if self._fits else None)
        why = saved.FAILED
        if not self._broken:
            try:
                found = saved.why_stays(self._torch, tensor, saved.caller_of(2))
                if found is None and not self._link.usable(self._is_over()):
                    found = saved.STREAM
                if found is None:
                    with self._lock:
                        return self._save(tensor)
                why = found
            except Exception as error:  # the program goes on without
                self._broken = True
                print(
                    f"stalloc: activations: all stays on the device from here on, because "
                    f"of a bug: {error!r}",
                    file=sys.stderr,
                    flush=True,
                )
        self.stayed[why] += 1
        return saved.Kept(tensor)

    def _save(self, tensor: Any) -> Any:
        cycle = self._cycle
        if cycle is None or self._is_over():
            cycle = self._begin(tensor)
        if self._fits:
            return saved.Kept(tensor, self)
        storage = tensor.untyped_storage()
        counter = self._storages.counter(tensor)
        record = self._records.get(storage._cdata)
        if record is not None and record.cycle is cycle and not record.changed(tensor):
            if not record.needed:
                cycle.items[record.number].idle = cycle.place
            return saved.Saved(self, record, tensor, counter)
        if storage.nbytes() < LEAST:
            return saved.Kept(tensor)
        weak, flat = self._storages.weak(storage), self._storages.flat(storage)
        record = saved.Record(cycle, weak, flat, tensor, counter)
        result = saved.Saved(self, record, tensor, counter)
        self._records[storage._cdata] = record
        self._numbers.append(record)
        self._live += 1
        self._place()
        # As long as memory suffices for what stays, no more leaves than the link can carry.
        room = self._observing and self._load < self.kinds.limit // 2
        if self._schedule is None and room and self._unplanned.is_busy(record.size):
            self.stayed[saved.LINK] += 1
        elif self._schedule is None or record.number in self._schedule.leave:
            self._leave(record)
        return result

    def restore(self, one: saved.Saved) -> Any:
        """The tensor, on the device."""
        record = one.record
        with self._lock:
            self.unpacked = True
            if not record.needed:
                record.needed = True
                if record.cycle is self._cycle:
                    record.cycle.need(record.number)
                    self._place(record)
            self._storages.bring(record)  # also where memory was short the first time
            return self._storages.view(one)

    def release(self, record: saved.Record) -> None:
        """A saved tensor of the record is gone."""
        with self._lock:
            record.users -= 1
            if record.users:
                return
            if record.cycle is self._cycle:
                self._live -= 1
                self._numbers[record.number] = None
            if self._records.get(record.weak.cdata) is record:
                del self._records[record.weak.cdata]
            self._storages.retire(record)

    # Cycles.

    def _is_over(self) -> bool:
        """Whether what is saved next begins a cycle."""
        cycle = self._cycle
        return cycle is None or self.unpacked and not self._live or cycle.place > _LONGEST

    def _begin(self, tensor: Any) -> Cycle:
        self._finish()
        link, kinds = self._link, self.kinds
        retries, plan = link.retries(), self._schedule
        # Less helps only where more can leave.
        if retries > self._retries and (self._fits or plan is not None and not plan.over):
            kinds.limit -= kinds.limit // 64
            kinds.forget()
        self._retries = retries
        kind = kinds.find((tuple(tensor.shape), tensor.dtype), link.allocated())
        small = len(kinds) > _KNOWN and kinds.largest < 0.7 * kinds.limit
        self._schedule = None if self.always else kind.schedule
        self._observing = not (self.always or kind.settled(kinds.limit))
        if self._schedule is None and small and not self.always:
            self._observing, self._fits = False, True
        else:
            plan = self._schedule
            self._fits = plan is not None and not plan.leave and not self._observing
        self._kind, self._cycle, self._numbers = kind, Cycle(), []
        self._live, self.unpacked = 0, False
        self._unplanned = Unplanned(self._storages, link, kinds.limit)
        link.timed, self._pinned = self._observing, link.host.pinned
        self._counts["cycles"] += 1
        return self._cycle

    def _finish(self) -> None:
        cycle, kind, link = self._cycle, self._kind, self._link
        if cycle is None or kind is None:
            return
        if self._fits:
            most = link.most()
            known = kind.schedule.peak if kind.schedule is not None else 0
            if most > max(self._most, known, 0.95 * self.kinds.limit):
                self.kinds.largest = max(self.kinds.largest, most)
                kind.forget()
            self._most = most
            return
        if self._schedule is not None:
            if len(cycle.sequence) == len(self._schedule.sequence):
                self._counts["planned"] += 1
            else:
                kind.forget()
                return
        if self._observing and cycle.sequence:
            cycle.peaks.append(link.load())
            cycle.steady = link.host.pinned == self._pinned
            self._counts["observed"] += 1
            self.kinds.observed(kind, cycle, link.rate("out"), link.rate("back"))

    def _place(self, needed: Optional[saved.Record] = None) -> None:
        """What is due where something is saved, or needed."""
        self._storages.settle()
        cycle, plan = self._cycle, self._schedule
        assert cycle is not None
        place = cycle.place
        if self._observing:
            self._load = self._link.load()
            if place:
                cycle.peaks.append(self._load)
            cycle.marks.append(self._link.mark())
        if plan is None:
            if needed is None:
                self._unplanned.saved()
            else:
                self._unplanned.needed(needed, self._numbers)
        elif place >= len(plan.sequence) or plan.sequence[place] != cycle.sequence[place]:
            self._diverge()
        else:
            for number in plan.drops.get(place, ()):
                self._storages.drop(self._numbers[number])
            for number in plan.backs.get(place, ()):
                self._storages.come_back(self._numbers[number])

    def _diverge(self) -> None:
        """The program does something else than planned: the rest of the cycle has no plan."""
        assert self._kind is not None
        self._kind.forget()
        self._schedule, self._observing = None, False
        for record in self._numbers:
            if record is not None and record.out is not None:
                self._unplanned.leaves(record)

    def _leave(self, record: saved.Record) -> None:
        if not self._storages.leave(record):
            self.stayed[saved.HOST] += 1
            record.cycle.items[record.number].held = True
        elif self._schedule is None:
            self._unplanned.leaves(record)
