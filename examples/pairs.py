"""Steps of a way beside native's of the same number, from lines of a ledger: `each, ms` are the
times of a run's steps, `hosts, us` the host's speed beside them."""

import statistics

from together_table import ALIKE


def ratios(ours, natives, keep):
    """Of each pair of runs: the median of native's time over ours; with `keep` of the steps at
    which the host was equally fast."""
    for mine, native in zip(ours, natives):
        hosts = zip(mine["hosts, us"], native["hosts, us"])
        alike = [max(pair) <= ALIKE * min(pair) for pair in hosts]
        times = zip(native["each, ms"], mine["each, ms"], alike)
        each = [other / own for other, own, same in times if same or not keep]
        if each:
            yield statistics.median(each)
