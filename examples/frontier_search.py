"""How frontier.py looks for the fastest way to train that fits into a size.

All ways run once without a limit, under native. That gives each way's speed, which hardly depends
on the allocator, and the memory that its live tensors need. At a size only ways whose live tensors
fit are tried, the fastest first. What counts is the speed that the allocator reached under that
limit; the search ends when no way left was faster without one. What an earlier run proves is not
run again: a way that was out of memory is so at smaller sizes; one that held less than a size, or
was as fast as without a limit below it, is as fast there.

Micro-batches of one sequence are bound by the host, and a shared host has two speeds: such a way
runs again, at most twice, until the host was fast beside some steps, and only these count.

Ways that offload are tried by an estimate: the time without a limit, and that of what is short on
the link, half of it hidden. The estimate decides what is tried, never what is shown.
"""

import dataclasses
import statistics

GIB = 1 << 30
LINK = 55e9  # bytes a second, each way
SAME = 0.985  # of its speed without a limit: as fast as that
SLOW = 1.1  # of the time that a fixed loop takes on the host at its fast speed
LEAST, TURNS = 3, 3  # steps beside which the host was fast; runs in which they are looked for
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


def later(run):
    """The later half of a run's steps: ms, and the host's time for the fixed loop."""
    times = run["steps_ms"]
    speeds = run.get("host_us") or [0] * len(times)
    return list(zip(times, speeds))[len(times) // 2 :]


class Search:
    """`ask(allocator, way, cap, turn)` makes a run, or raises LookupError where a table is made."""

    def __init__(self, bench, ask=None):
        self.bench = bench
        self._ask, self._measures = ask or bench.run, ask is None
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
            try:
                found = self._faster(found, allocator, way, size)
            except LookupError:  # a table has what was tried
                if not tried:
                    raise
                break
            tried += 1
        return found

    def _faster(self, found, allocator, way, size):
        rate = self.rate(allocator, way, size)
        return Found(rate, way) if rate and (not found or rate > found.rate) else found

    def rate(self, allocator, way, size):
        """Tokens a second with at most `size` GiB; None where that does not suffice."""
        runs = self.bench.known(allocator, way)
        for cap, those in runs.items():
            if those[0]["oom"] and (cap is None or cap >= size):
                return None
        plain = dataclasses.replace(way, offload=())
        free = self.profiles()[plain].rate
        if self.bench.known("native", plain).get(None, [{}])[0].get("oom"):
            free = float("inf")  # nobody knows what it is without a limit
        for cap, those in runs.items():
            if those[0]["oom"] or not self._settled(way, those):
                continue
            rate = self.speed(those)
            held = max(run["peak_reserved"] for run in those) <= size * GIB
            if cap == size or held and (cap is None or cap > size):
                return rate
            if cap is not None and cap < size and rate >= SAME * free:
                return rate
        those = list(runs.get(size, []))
        while not those or not self._settled(way, those):
            those.append(self._ask(allocator, way, size, len(those)))
            if those[-1]["oom"]:
                return None
        return self.speed(those)

    def speed(self, runs):
        """Of the later half of the steps; of those beside which the host was fast, if there are."""
        steps = [step for run in runs for step in later(run)]
        kept = [ms for ms, us in steps if us <= SLOW * self._fast()]
        chosen = kept if len(kept) >= LEAST else [ms for ms, _ in steps]
        return 1000 * self.bench.model.tokens / statistics.median(chosen)

    def _settled(self, way, runs):
        """Whether more runs would say no more. A table takes what there is."""
        if way.batch > 1 or len(runs) == TURNS or not self._measures:
            return True
        fast = SLOW * self._fast()
        return sum(us <= fast for run in runs for _, us in later(run)) >= LEAST

    def _fast(self):
        """What the fixed loop takes in the fastest tenth of all steps; 0: older runs, without."""
        seen = sorted(us for run in self.bench.all_runs() for us in run.get("host_us", []) if us)
        return seen[len(seen) // 10] if seen else 0

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
                    (run,) = self.bench.known("native", way).get(None) or [
                        self._ask("native", way, None, 0)
                    ]
                    series.append((way, run))
                    found[way] = self._profile(run, found, series)
            self._profiles = {way: profile for way, profile in found.items() if profile}
        return self._profiles

    def _profile(self, run, found, series):
        if not run["oom"]:
            return Profile(self.speed([run]), run["peak_load"])
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
