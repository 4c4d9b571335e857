"""How frontier.py looks for the fastest way to train that fits into a size.

All ways run once without a limit, under native. That gives each way's speed, which hardly depends
on the allocator, and the memory that its live tensors need. At a size only ways whose live tensors
fit are tried, the fastest first. What counts is the speed that the allocator reached under that
limit; the search ends when no way left was faster without one. What an earlier run proves is not
run again: a way that was out of memory is so at smaller sizes; one that held less than a size, or
was as fast as without a limit below it, is as fast there.

A cell is the median of the runs of its way at its limit: of one, until more are asked for. If one
of them runs out of memory, the way does not fit.

Small micro-batches may be bound by the host, whose speed on a shared machine varies by a half: what
such a run took says nothing of its allocator, and little of other hosts. Their kernels are profiled
once. The speed is what the kernels alone reach, as on a fast host, with what this allocator's
driver calls and waits took on top, or the run's own if that is higher. Without a profile the
fastest quarter of the steps of all allocators stands for the kernels of micro-batches of one
sequence.

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
        """Offloading learns from its first steps."""
        return 16 if "activations" in self.offload else 10 if self.offload else 5

    @property
    def by_host(self):
        """Whether the host may bound it, under every allocator."""
        return self.batch <= 2 and not self.offload

    def words(self):
        text = f"{self.batch}, {RECOMPUTED[self.recompute]}"
        return " + ".join([text, *self.offload])


@dataclasses.dataclass(frozen=True)
class Found:
    """A way at a size, the tokens a second of its runs there, and those by the clock alone."""

    way: Way
    rates: tuple
    clocked: tuple = ()
    least: bool = False  # ways that were not run may be faster
    # The host may bound it, and the allocator gave its cache back and tried again. How long that
    # took is not known, so its kernels alone do not say how fast it is.
    retried: bool = False

    @property
    def rate(self):
        return statistics.median(self.rates)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A way under native, without a limit: its tokens a second, and the bytes of live tensors."""

    rate: float
    live: float


def later(values):
    """The later half of what there is of each step."""
    return values[len(values) // 2 :]


class Search:
    """`ask(allocator, way, cap, turn)` makes a run, or raises LookupError where only a table is
    made. A cell is sought with at least `turns` runs."""

    def __init__(self, bench, ask=None, turns=1):
        self.bench, self.turns = bench, turns
        self._ask = ask or bench.run
        self._profiles = None

    def best(self, allocator, size, lends=False):
        """The fastest way at this size; None if none fits. A table has what was run, if anything
        was at this size."""
        found, missing, tried = None, None, 0
        plain = self.profiles()
        fits = [(profile.rate, way) for way, profile in plain.items() if profile.live <= size * GIB]
        ways = sorted(fits, key=lambda pair: -pair[0])
        ways += sorted(self.offloads(size), key=lambda pair: -pair[0]) if lends else []
        for estimate, way in ways:
            enough = way.offload and tried == self.bench.args.tries
            if enough or found and estimate <= found.rate:
                continue
            try:
                found = self._faster(found, allocator, way, size)
                tried += bool(way.offload)
            except LookupError as error:
                missing = missing or error
        if missing is None:
            return found
        if not found or not self.bench.limited(allocator, size):
            raise missing
        return dataclasses.replace(found, least=True)

    def _faster(self, found, allocator, way, size):
        runs = self.runs(allocator, way, size)
        if runs is None:
            return found
        tokens = 1000 * self.bench.model.tokens
        clocked = tuple(tokens / statistics.median(later(run["steps_ms"])) for run in runs)
        retried = way.by_host and any(run["steady_retries"] for run in runs)
        rates = tuple(self.speed(way, run) for run in runs)
        other = Found(way, rates, clocked, retried=retried)
        return other if not found or other.rate > found.rate else found

    def runs(self, allocator, way, size):
        """What says how fast a way is with `size` GiB; None where that does not suffice."""
        while True:
            known = self.bench.known(allocator, way)
            for cap, runs in known.items():
                if (cap is None or cap >= size) and any(run["oom"] for run in runs):
                    return None
            proven = (cap for cap in known if self._proves(allocator, way, cap, size))
            cap = next(proven, size)
            runs = known.get(cap, [])
            if len(runs) >= self.turns:
                return runs
            self._ask(allocator, way, cap, len(runs))

    def _proves(self, allocator, way, cap, size):
        """Whether the runs with this limit say how fast the way is with `size` GiB."""
        runs = self.bench.known(allocator, way)[cap]
        if any(run["oom"] for run in runs):
            return False
        if cap == size:
            return True
        if cap is None or cap > size:
            return all(run["peak_reserved"] <= size * GIB for run in runs)
        plain = dataclasses.replace(way, offload=())
        free = self.bench.known("native", plain).get(None, [])
        if any(run["oom"] for run in free):
            return False  # nobody knows how fast it is without a limit
        rates = [self.speed(way, run) for run in runs]
        return statistics.median(rates) >= SAME * self.profiles()[plain].rate

    def speed(self, way, run):
        """Tokens a second in the later half of the steps."""
        step = statistics.median(later(run["steps_ms"]))
        if way.by_host and not run["steady_retries"]:
            own = [driver + wait for driver, wait in zip(run["driver_ms"], run["wait_ms"])]
            kernels, fastest = self.bench.kernels(way), self._fastest(way)
            if kernels:
                step = min(step, kernels + statistics.median(later(own)))
            elif not kernels and fastest:
                step = fastest + statistics.median(later(own))
        return 1000 * self.bench.model.tokens / step

    def _fastest(self, way):
        """Where nobody knows the kernels' time: the fastest quarter of the steps of all allocators,
        for micro-batches of one sequence; else None."""
        if way.batch > 1:
            return None
        every = [ms for run in self.bench.of_all(way) for ms in later(run["steps_ms"])]
        return statistics.quantiles(every)[0] if len(every) > 1 else None

    def profiles(self):
        """By way, without a limit under native. What the device has no room for, and what follows
        on that, is reckoned from the micro-batches before."""
        if self._profiles is None:
            found = {}
            for recompute in self.bench.model.recompute:
                series = []
                for batch in self.bench.args.batches or self.bench.model.batches:
                    way = Way(batch, recompute)
                    last = series[-1][1] if series else None
                    if last is not None and last["oom"]:
                        break
                    run = self._unlimited(way)
                    series.append((way, run))
                    found[way] = self._profile(run, found, series)
            self._profiles = {way: profile for way, profile in found.items() if profile}
        return self._profiles

    def _unlimited(self, way):
        """A run under native without a limit; where the host may bound it, its kernels are known
        then, if the profiler works."""
        runs = self.bench.known("native", way).get(None, [])
        known = runs and (not way.by_host or any("device_ms" in run or run["oom"] for run in runs))
        if not known:
            try:
                self._ask("native", way, None, len(runs))
            except LookupError:  # a table has what was run
                if not runs:
                    raise
        return self.bench.known("native", way)[None][0]

    def _profile(self, run, found, series):
        if not run["oom"]:
            return Profile(self.speed(series[-1][0], run), run["peak_load"])
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
            if short <= -0.01 * room or (WEIGHT - STATES) * weights > room:  # states in parts
                continue
            step = self.bench.model.tokens / plain.rate
            counts = self.bench.model.sequences / way.batch  # micro-batches a step
            for which in self.bench.model.offloads:
                away = min(states, max(short, 0)) if "states" in which else 0
                rest = max(0, short - away)  # activations, of each micro-batch
                most = plain.live - WEIGHT * weights if "activations" in which else 0
                if rest > 0.8 * most or len(which) == 2 and not rest:
                    continue
                time = step + away / LINK + counts * rest / LINK
                offload = dataclasses.replace(way, offload=which)
                yield self.bench.model.tokens / time, offload
