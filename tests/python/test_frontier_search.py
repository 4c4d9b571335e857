"""How the fastest way is looked for, and what earlier runs prove."""

import frontier
import frontier_search
import ledger
import pytest
from frontier_search import GIB, Search, Way


def a_bench(ask, *options, **profiles):
    """A bench of which nothing was run, and a search through it."""
    bench = frontier.Bench("1.3b", frontier.parse_arguments(["--json", "x", *options]), FakeBook())
    return bench, Search(bench, ask, **profiles)


def rates(search, allocator, way, size):
    runs = search.runs(allocator, way, size)
    return runs and tuple(search.speed(way, run) for run in runs)


def nobody(*_):
    pytest.fail("it was run")


def test_a_way_that_is_out_of_memory_is_not_tried_with_less():
    bench, search = a_bench(nobody)
    way = Way(4, 0)
    bench.book.put(bench.key("native", way, None), live=36, held=40, seconds=1.0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("stalloc", way, 37), live=36, held=36.4, seconds=1.0)
    bench.book.put(bench.key("expandable", way, 37), None)
    assert rates(search, "stalloc", way, 40) == rates(search, "stalloc", way, 37) == (32768,)
    assert rates(search, "native", way, 41) == (32768,)
    assert rates(search, "expandable", way, 36) is None


def test_a_slow_run_says_nothing_of_larger_sizes():
    def ask(*run):
        asked.append(run)
        bench.book.put(bench.key(*run))

    asked, (bench, search) = [], a_bench(ask)
    way = Way(4, 0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("native", way, 38), live=36, held=38, seconds=1.2)
    assert rates(search, "native", way, 39) is None and asked == [("native", way, 39, 0)]


def test_more_turns_repeat_what_decided_and_one_that_fails_decides():
    results = [{"live": 36, "held": 37, "seconds": 2.0}, {"live": 36, "held": 37, "seconds": 4.0}]

    def ask(*run):
        asked.append(run)
        bench.book.put(bench.key(*run), **results.pop(0))

    asked, (bench, search) = [], a_bench(ask, turns=3)
    way = Way(4, 0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("stalloc", way, 50), live=36, held=37, seconds=1.0)
    assert rates(search, "stalloc", way, 40) == (32768, 16384, 8192)
    assert asked == [("stalloc", way, 50, 1), ("stalloc", way, 50, 2)]
    bench.book.put(bench.key("stalloc", way, 50, 3))
    assert rates(search, "stalloc", way, 40) is None


def test_a_repeat_that_holds_more_than_the_size_proves_nothing_there():
    def ask(*run):
        bench.book.put(bench.key(*run), live=36, held=38 if run[2] == 50 else 37, seconds=1.0)

    bench, search = a_bench(ask, turns=2)
    way = Way(4, 0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("stalloc", way, 50), live=36, held=37, seconds=2.0)
    assert rates(search, "stalloc", way, 37) == (32768, 32768)  # of two runs with 37 GiB


def test_what_the_host_bounds_has_the_time_of_its_kernels_and_each_allocators_own_on_top():
    bench, search = a_bench(nobody)
    way = Way(1, 0)
    search._profiles = {way: frontier_search.Profile(30000.0, 28 * GIB)}
    bench.book.put(bench.key("expandable", way, 30), live=28, held=29, seconds=1.3)
    assert rates(search, "expandable", way, 30) == pytest.approx((32768 / 1.3,))
    bench.book.put(bench.key("native", way, None), live=28, held=29, seconds=2.0, kernels=1000)
    assert rates(search, "expandable", way, 30) == pytest.approx((32768,))
    bench.book.put(bench.key("stalloc", way, 30), live=28, held=29, seconds=1.5, driver=24)
    assert rates(search, "stalloc", way, 30) == pytest.approx((32768 / 1.024,))
    bench.book.put(bench.key("async", way, 30), live=28, held=29, seconds=2.0, retries=3)
    assert rates(search, "async", way, 30) == pytest.approx((32768 / 2,))
    assert search.best("async", 30).retried and not search.best("stalloc", 30).retried
    bench.book.put(bench.key("native", way, 31), live=28, held=29, seconds=0.99)
    assert rates(search, "native", way, 31)[0] == pytest.approx(32768)


def test_a_table_has_what_was_run_and_says_where_more_may_be_faster():
    def ask(*run):
        raise LookupError

    bench, search = a_bench(ask)
    fast, slow = Way(4, 0), Way(4, 1)
    profiles = {fast: 40000.0, slow: 30000.0}
    search._profiles = {
        way: frontier_search.Profile(rate, 20 * GIB) for way, rate in profiles.items()
    }
    with pytest.raises(LookupError):
        search.best("stalloc", 24)
    bench.book.put(bench.key("stalloc", slow, 24), live=20, held=24, seconds=1.2)
    found = search.best("stalloc", 24)
    assert found.way == slow and found.least
    with pytest.raises(LookupError):
        search.best("stalloc", 25)  # nothing was run there
    bench.book.put(bench.key("stalloc", fast, 24), live=20, held=24, seconds=1.0)
    assert not search.best("stalloc", 24).least


class FakeBook:
    def __init__(self):
        self.entries = {}

    def has(self, key):
        return ledger.key_of(key) in self.entries

    def put(self, key, live=None, held=0, seconds=0.0, driver=0, retries=0, kernels=None):
        run = {"oom": live is None}
        if live is not None:
            run |= {"peak_load": live * GIB, "peak_reserved": int(held * GIB)}
            run |= {"steps_ms": [1000 * seconds] * 8, "driver_ms": [driver] * 8}
            run |= {"wait_ms": [0] * 8, "steady_retries": retries}
            run |= {"device_ms": kernels} if kernels else {}
        self.entries[ledger.key_of(key)] = run
