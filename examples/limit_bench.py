"""What limit.py measures of a program, and how it looks for where memory and speed end.

A Bench asks a ledger for runs, by allocator and limit, and says what is known from those that were
made: whether a limit suffices, and how long a step takes there.
"""

import concurrent.futures
import json
import statistics
from pathlib import Path

import ledger

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
UNLIMITED = None
CURVE = (1.5, 1.3, 1.2, 1.1, 1.05, 1.03, 1.01, 1.005)  # of the peak load
APART = 0.01  # between two limits of which one suffices; half of it next to 1
PROBE = 8  # steps, where a size is looked for
FULL_SPEED = 1.01  # of the fastest allocator's step without a limit


class Bench:
    """One program under all allocators: what it asks of the ledger, and what that says."""

    def __init__(self, name, program, args, book, gpu=0):
        self.name, self.program, self.args, self.book = name, program, args, book
        self.gpu = gpu

    def run(self, allocator, limit=UNLIMITED, turn=0, alone=True, **larger):
        """A run's result. `limit` is a multiple of the peak load."""
        key = self.key(allocator, limit, turn, alone, **larger)
        options = key["options"].split()
        size, cap, steps = key["size"], key["cap"], key["steps"]
        if steps is not None:
            options += ["--steps", str(steps)]
        if limit is not UNLIMITED:
            cap = limit * self.live() / GIB
        if size is not None:
            options += [self.program.size, str(size * self.program.unit)]
        if cap is not None:
            options += ["--memory-cap", repr(cap)]
        how = {"turn": turn, "beside": self.args.allocators} if alone else {}
        how["gpus"] = (self.gpu,)
        return self.book.run(key, HERE / self.program.script, options, allocator, **how)

    def key(self, allocator, limit, turn, alone, size=None, cap=None, steps=None):
        """What tells a run from others; `cap` is in GiB, None stands for what is the default."""
        options = " ".join([*self.program.options.split(), *self.args.rest])
        key = {"program": self.name, "options": options, "allocator": allocator, "limit": limit}
        return {**key, "size": size, "cap": cap, "steps": steps, "turn": turn, "alone": alone}

    def live(self):
        """The most bytes that the program's tensors need at once."""
        return self.run(self.args.allocators[0])["peak_load"]

    # What is known.

    def results(self, allocator, limit):
        """The runs of the curve that were made so far, one a turn."""
        found = []
        for turn in range(self.args.turns):
            try:
                found.append(self.known(allocator, limit, turn, True))
            except KeyError:
                break
        return found

    def known(self, allocator, limit, turn, alone):
        return self.book.entries[ledger.key_of(self.key(allocator, limit, turn, alone))]

    def has(self, *run):
        return ledger.key_of(self.key(*run)) in self.book.entries

    def limits(self, allocator):
        """All limits at which it was run, the largest first."""
        found = set()
        for text in list(self.book.entries):
            key = json.loads(text)
            if key["limit"] and key == self.key(allocator, key["limit"], key["turn"], key["alone"]):
                found.add(key["limit"])
        return sorted(found, reverse=True)

    def larger(self, allocator):
        """The runs at the cap that were made so far, with their keys."""
        for text, result in list(self.book.entries.items()):
            key = json.loads(text)
            more = {"size": key["size"], "cap": self.args.cap, "steps": key["steps"]}
            if key["size"] and key == self.key(allocator, UNLIMITED, key["turn"], True, **more):
                yield key, result

    def checksums(self):
        """Those of all runs that trained the same and came to their end."""
        same = self.key(None, None, 0, True)
        same = {part: same[part] for part in ("program", "options", "size", "steps")}
        for text, result in list(self.book.entries.items()):
            if not result["oom"] and same.items() <= json.loads(text).items():
                yield result.get("checksum")

    def fits(self, allocator, limit):
        """Whether it came to its end there, at best in a process of its own; None: nobody knows."""
        for alone in (False, True):
            try:
                return not self.known(allocator, limit, 0, alone)["oom"]
            except KeyError:
                pass
        return None

    def step(self, allocator, limit):
        """The median step in ms over the turns; None where none came to its end."""
        times = [r["step_ms"] for r in self.results(allocator, limit) if not r["oom"]]
        return statistics.median(times) if times else None

    def fastest(self):
        """The fastest allocator's step without a limit."""
        return min(self.step(allocator, UNLIMITED) for allocator in self.args.allocators)

    def fast(self, allocator, limit):
        """Whether it ran at full speed there; None if nobody knows."""
        if self.fits(allocator, limit) is False:
            return False
        step = self.step(allocator, limit)
        return None if step is None else step <= FULL_SPEED * self.fastest()

    # What is measured.

    def curve(self, turn):
        """Steps at all limits, the allocators in turns; none below one that did not suffice."""
        for limit in (UNLIMITED, *self.args.limits):
            for allocator in self.args.allocators:
                if limit is not UNLIMITED and self.dead(allocator, limit):
                    continue
                self.run(allocator, limit, turn)

    def dead(self, allocator, limit):
        """Whether this or a larger limit is known not to suffice."""
        return any(
            self.fits(allocator, other) is False
            for other in self.limits(allocator)
            if other >= limit
        )

    def knee(self, allocator, suffices, turns=0):
        """Bisects between the largest limit known not to suffice and the smallest above that does.

        Returns that limit; None if none of the curve suffices. Without turns no time is taken, so
        runs are side by side, each in a process of its own, that limit's as well: what a worker
        runs has learned from the limits before.
        """
        while True:
            low, high = self.bracket(allocator, suffices)
            if high is None:
                return high
            at = round((low + high) / 2, 4)
            if high - low <= APART / (2 if low <= 1.01 else 1) + 1e-9:
                if turns or self.has(allocator, high, 0, False):
                    return high
                at = high
            for turn in range(max(1, turns)):
                self.run(allocator, at, turn, alone=turns > 0)

    def bracket(self, allocator, suffices):
        known = [(limit, suffices(allocator, limit)) for limit in self.limits(allocator)]
        low = max((limit for limit, ok in known if ok is False), default=1.0)
        high = min((limit for limit, ok in known if ok and limit > low), default=None)
        return low, high

    def knees(self, turns):
        """Where each allocator's memory ends, and where its speed does."""
        jobs = min(self.args.jobs, max(1, int(self.args.device * GIB / (1.6 * self.live()))))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            tasks = [
                pool.submit(self.knee, allocator, self.fits) for allocator in self.args.allocators
            ]
            for task in tasks:
                task.result()
        for allocator in self.args.allocators:
            self.knee(allocator, self.fast, turns)

    def largest(self):
        sizes = {allocator: self.largest_of(allocator) for allocator in self.args.allocators}
        for turn in range(1, self.args.turns):
            for allocator, size in sizes.items():
                if size:
                    self.run(allocator, turn=turn, size=size, cap=self.args.cap)
        return sizes

    def largest_of(self, allocator):
        """The largest size that trains in the cap, in units; 0 if none does.

        It is looked for with a few steps, and lowered while all steps run out of memory.
        """

        def fits(size, steps):
            return not self.run(allocator, size=size, cap=self.args.cap, steps=steps)["oom"]

        guess, most = self.guess(allocator)
        size = largest(lambda n: fits(n, PROBE), guess, most)
        while size and not fits(size, None):
            size -= 1
        return size

    def guess(self, allocator):
        """Where to look first, and the size whose tensors alone fill the cap: a straight line."""
        small = self.program.small
        first = self.run(self.args.allocators[0])["peak_load"]
        second = self.run(self.args.allocators[0], size=2 * small, steps=PROBE)["peak_load"]
        if second <= first:
            raise ledger.Broken(f"{self.name}: the load does not grow with {self.program.size}")

        def size_of(load):
            return small + small * (load - first) / (second - first)

        _, knee = self.bracket(allocator, self.fits)
        cap = self.args.cap * GIB
        return max(1, int(size_of(cap / (knee or max(self.args.limits))))), int(
            1.1 * size_of(cap)
        ) + 1


def largest(fits, guess, most):
    """The largest n of 1..most for which fits(n), 0 if none; calls it near `guess` first.

    Supposes that all smaller n fit where one does.
    """
    low, high, stride = 0, most + 1, max(1, guess // 32)
    n = min(max(guess, 1), most)
    while low + 1 < high:
        if fits(n):
            low, step = n, n + stride
        else:
            high, step = n, n - stride
        stride *= 2
        n = step if low < step < high and (low == 0 or high > most) else (low + high) // 2
    return low
