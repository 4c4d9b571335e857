"""How frontier.py looks for the fastest way to train that fits into a size.

All ways run once without a limit, under native. That gives each way's speed, which hardly depends
on the allocator, and the memory that its live tensors need. At a size only ways whose live tensors
fit are tried, the fastest first. What counts is the speed that the allocator reached under that
limit; the search ends when no way left was faster without one. What an earlier run proves is not
run again: a way that was out of memory is so at smaller sizes; one that held less than a size, or
was as fast as without a limit below it, is as fast there.

Ways that offload are tried by an estimate: the time without a limit, and that of what is short on
the link, half of it hidden. The estimate decides what is tried, never what is shown.
"""

import dataclasses
import statistics

GIB = 1 << 30
LINK = 55e9  # bytes a second, each way
SAME = 0.985  # of its speed without a limit: as fast as that
STATES, WEIGHT = 8, 16  # bytes of a weight: AdamW's states, all in all
OFFLOADS = (("states",), ("activations",), ("states", "activations"))
RECOMPUTED = {0: "none", 2: "every second layer", 1: "all layers"}


@dataclasses.dataclass(frozen=True)
class Way:
    batch: int
    recompute: int  # every so many layers; 0: none
    offload: tuple = ()

    def options(self):
        words = ["--batch", str(self.batch), "--recompute", str(self.recompute)]
        return [*words, "--offload", *self.offload] if self.offload else words

    @property
    def steps(self):
        """Offloading learns from its first steps; micro-batches of one sequence are bound by the
        host, whose speed varies."""
        learns = 16 if "activations" in self.offload else 10 if self.offload else 5
        return max(learns, 12) if self.batch == 1 else learns

    def words(self):
        text = f"{self.batch}, {RECOMPUTED[self.recompute]}"
        return " + ".join([text, *self.offload])


@dataclasses.dataclass(frozen=True)
class Found:
    rate: float  # tokens a second
    way: Way


@dataclasses.dataclass(frozen=True)
class Profile:
    """A way under native, without a limit: its tokens a second, and the bytes of live tensors."""

    rate: float
    live: float


class Search:
    """`ask(allocator, way, cap)` makes a run, or raises LookupError where only a table is made."""

    def __init__(self, bench, ask=None):
        self.bench = bench
        self._ask = ask or bench.run
        self._profiles = None

    def best(self, allocator, size, lends=False):
        """The fastest way at this size; None if none fits."""
        found = None
        plain = self.profiles()
        fits = [way for way, profile in plain.items() if profile.live <= size * GIB]
        for way in sorted(fits, key=lambda way: -plain[way].rate):
            if found and plain[way].rate <= found.rate:
                break
            found = self._faster(found, allocator, way, size)
        if not lends:
            return found
        tried = 0
        for estimate, way in sorted(self.offloads(size), key=lambda pair: -pair[0]):
            if tried == self.bench.args.tries or found and estimate <= found.rate:
                break
            found = self._faster(found, allocator, way, size)
            tried += 1
        return found

    def _faster(self, found, allocator, way, size):
        rate = self.rate(allocator, way, size)
        return Found(rate, way) if rate and (not found or rate > found.rate) else found

    def rate(self, allocator, way, size):
        """Tokens a second with at most `size` GiB; None where that does not suffice."""
        runs = self.bench.known(allocator, way)
        if any(run["oom"] and (cap is None or cap >= size) for cap, run in runs.items()):
            return None
        plain = dataclasses.replace(way, offload=())
        free = self.profiles()[plain].rate
        if self.bench.known("native", plain).get(None, {}).get("oom"):
            free = float("inf")  # nobody knows what it is without a limit
        for cap, run in runs.items():
            if run["oom"]:
                continue
            rate = self.speed(run)
            held = run["peak_reserved"] <= size * GIB
            if cap == size or held and (cap is None or cap > size):
                return rate
            if cap is not None and cap < size and rate >= SAME * free:
                return rate
        run = self._ask(allocator, way, size)
        return None if run["oom"] else self.speed(run)

    def speed(self, run):
        """Of the later half of the steps."""
        last = run["steps_ms"][len(run["steps_ms"]) // 2 :]
        return 1000 * self.bench.model.tokens / statistics.median(last)

    def profiles(self):
        """By way, without a limit under native. What the device has no room for, and what follows
        on that, is reckoned from the micro-batches before."""
        if self._profiles is None:
            found = {}
            for recompute in RECOMPUTED:
                series = []
                for batch in self.bench.args.batches:
                    way = Way(batch, recompute)
                    last = series[-1][1] if series else None
                    if last is not None and last["oom"]:
                        break
                    run = self.bench.known("native", way).get(None)
                    run = run or self._ask("native", way, None)
                    series.append((way, run))
                    found[way] = self._profile(run, found, series)
            self._profiles = {way: profile for way, profile in found.items() if profile}
        return self._profiles

    def _profile(self, run, found, series):
        if not run["oom"]:
            return Profile(self.speed(run), run["peak_load"])
        if len(series) < 3:
            return None
        one, two = (found[way] for way, _ in series[-3:-1])
        return Profile(two.rate, two.live + 2 * (two.live - one.live))

    def offloads(self, size):
        """Ways that need offloading at this size, with the tokens a second that they may reach."""
        room, weights = size * GIB, self.bench.model.weights * 1e9
        states = STATES * weights
        for way, plain in self.profiles().items():
            short = plain.live - room
            if short <= -0.01 * room or WEIGHT * weights > room:
                continue
            step = self.bench.model.tokens / plain.rate
            counts = self.bench.model.tokens / 2048 / way.batch  # micro-batches a step
            for which in OFFLOADS:
                away = min(states, max(short, 0)) if "states" in which else 0
                rest = max(0, short - away)  # activations, of each micro-batch
                most = plain.live - WEIGHT * weights if "activations" in which else 0
                if rest > 0.8 * most or len(which) == 2 and not rest:
                    continue
                time = step + away / LINK + counts * rest / LINK
                offload = dataclasses.replace(way, offload=which)
                yield self.bench.model.tokens / time, offload
