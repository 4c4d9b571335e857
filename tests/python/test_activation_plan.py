"""From observed cycles to schedules, without PyTorch; the planner is the real one."""

import mmap
import random

import pytest
from stalloc import _activation_kinds, _host_memory, _residency
from stalloc._activation_plan import LEAST, Cycle, problem, schedule
from stalloc.activations import parse_limit

MS = 1_000_000


def observed(layers, size=4 * LEAST, base=10 * LEAST):
    """A cycle in which each layer saves a tensor, and all were on the device."""
    cycle = Cycle()
    for layer in range(layers):
        cycle.save(size)
        cycle.peaks.append(base + size * (layer + 1))
    for layer in reversed(range(layers)):
        cycle.need(layer)
        cycle.peaks.append(base + size * (layer + 1))
    cycle.marks = list(range(len(cycle.sequence)))
    return cycle


def peak(cycle, plan):
    """The highest load of a schedule, place by place, and what is away at the end."""
    away, load, most = 0, cycle.loads(), 0
    idle = [cycle.items[number] for number in cycle.movable()]
    for place in range(len(cycle.sequence)):
        present = sum(item.size for item in idle if item.idle <= place < item.need)
        for number in plan.drops.get(place, ()):
            assert number in plan.leave and place > cycle.items[number].idle
            away += cycle.items[number].size
        for number in plan.backs.get(place, ()):
            assert place <= cycle.items[number].need
            away -= cycle.items[number].size
        most = max(most, load[place] + present - away)
    return most, away


@pytest.mark.parametrize("rate", [4e9, 1e9, 2e8])
def test_a_schedule_keeps_the_limit(rate):
    cycle = observed(12)
    assert cycle.loads() == [10 * LEAST] * 11 + [14 * LEAST] * 13  # the last is needed at once
    assert cycle.whole() == 58 * LEAST
    times = [place * 5 * MS for place in range(24)]
    for limit in range(24 * LEAST, 60 * LEAST, 3 * LEAST):
        plan = _residency.solve(problem([cycle], times, limit, rate, rate))
        assert plan["Over"] == 0
        planned = schedule(cycle, times, plan, limit)
        most, away = peak(cycle, planned)
        assert most <= limit and away == 0
        assert bool(planned.leave) == (limit < 58 * LEAST)
        if rate == 4e9:
            assert planned.wait == 0 and planned.left <= max(0, 58 * LEAST - limit) + 8 * LEAST


def test_what_left_is_no_load():
    """A cycle in which all left has the same loads as one in which all stayed."""
    stayed, left = observed(6), observed(6)
    for item in left.items:
        item.drop, item.back = item.idle + 2, item.need - 1
        if item.drop >= item.back:
            item.drop = item.back = None
            continue
        for place in range(item.drop, item.back):
            left.peaks[place] -= item.size
    assert left.loads() == stayed.loads() and left.whole() == stayed.whole()


def test_times_are_without_waits_for_copies():
    cycle = observed(2)
    cycle.marks = [0, 10, 30, 40]
    cycle.stalls = [(1, 11, 15), (1, 15, 16), (2, 31, 38)]
    assert cycle.times(lambda marks: marks) == [0, 10 + 1, 30 - 5 + 2, 40 - 12 + 3]


def test_what_the_program_holds_does_not_leave():
    cycle = observed(6)
    cycle.items[0].held = True
    assert cycle.movable() == [1, 2, 3, 4]  # the last is needed at once
    assert cycle.loads()[:6] == [14 * LEAST] * 5 + [18 * LEAST]


def learned(kinds, kind, cycle):
    kinds.observed(kind, cycle, 4e9, 4e9)
    kinds.settle()


def test_kinds_are_planned_in_a_thread(capsys):
    kinds = _activation_kinds.Kinds(40 * LEAST, lambda marks: [mark * 5 * MS for mark in marks])
    kind = kinds.find("a", 10 * LEAST)
    assert kinds.find("a", 10 * LEAST) is kind and kinds.find("b", 10 * LEAST) is not kind
    assert kinds.find("a", 12 * LEAST) is not kind
    assert not kind.settled(kinds.limit)
    for _ in range(3):
        learned(kinds, kind, observed(12))
    assert kind.settled(kinds.limit) and kind.schedule.leave and kinds.largest == 58 * LEAST
    # A step whose optimizer alone is above the limit is planned as well as one without.
    cycle = observed(12)
    cycle.peaks[-1] = 99 * LEAST
    other = kinds.find("c", 0)
    learned(kinds, other, cycle)
    assert other.schedule.leave == kind.schedule.leave and other.schedule.over == 0
    assert capsys.readouterr().err == ""
    learned(kinds, kinds.find("d", 0), observed(12, base=39 * LEAST))
    assert capsys.readouterr().err.count("MiB more than the limit") == 1
    # What cannot be planned ends nothing.
    learned(kinds, kinds.find("e", 0), Cycle())
    learned(kinds, kind, observed(12))


def test_few_kinds_are_kept():
    kinds = _activation_kinds.Kinds(1 << 30, lambda marks: marks)
    first = kinds.find(0, 0)
    for number in range(200):
        kinds.find(number, 0)
        if number == 50:
            assert kinds.find(0, 0) is first
    assert len(kinds) == 64 and kinds.find(0, 0) is not first


def test_host_memory_is_handed_out_and_merged():
    slabs = []

    def pin(size):
        fits = sum(map(len, slabs)) + size <= 3 * slab
        slabs.append(memoryview(mmap.mmap(-1, size)) if fits else None)  # as a tensor: no copies
        return slabs[-1]

    slab = _host_memory.SLAB
    host = _host_memory.HostMemory(lambda size: pin(size) if None not in slabs else None)
    generator, live = random.Random(1), []
    for _ in range(3000):
        if live and generator.random() < 0.5:
            host.give(live.pop(generator.randrange(len(live))))
        elif piece := host.take(generator.randrange(1, slab // 8)):
            live.append(piece)
        taken = sorted((piece.slab, piece.offset, piece.size) for piece in live)
        assert all(a[0] != b[0] or a[1] + a[2] <= b[1] for a, b in zip(taken, taken[1:]))
    for piece in live:
        host.give(piece)
    pinned = host.pinned
    assert host.take(slab).size == slab and host.pinned == pinned


MEMINFO = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\n"


@pytest.mark.parametrize(
    "files, spare",
    [
        ({}, 1 << 62),
        ({"proc/self/cgroup": "0::/\n"}, 700 << 10),
        # The page cache that is not in use can be had, as on the host.
        (
            {
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/jobs/one/memory.max": "409600\n",
                "sys/fs/cgroup/jobs/one/memory.current": "409600\n",
                "sys/fs/cgroup/jobs/one/memory.stat": "anon 100\ninactive_file 204800\n",
            },
            204800 - 40960,
        ),
        # Of a group above.
        (
            {
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/jobs/one/memory.max": "max\n",
                "sys/fs/cgroup/jobs/memory.max": "10000\n",
                "sys/fs/cgroup/jobs/memory.current": "4000\n",
            },
            5000,
        ),
        # In a container the path is the host's.
        (
            {
                "proc/self/cgroup": "0::/on/the/host\n",
                "sys/fs/cgroup/memory.max": "10000\n",
                "sys/fs/cgroup/memory.current": "4000\n",
            },
            5000,
        ),
        # The first version.
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/job\n0::/none\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "10000\n",
                "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "4000\n",
            },
            5000,
        ),
    ],
)
def test_the_host_keeps_a_tenth(tmp_path, files, spare):
    for name, text in ({"proc/meminfo": MEMINFO} | files if files else {}).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert _host_memory._available(str(tmp_path)) == spare


def test_limits_are_read():
    total = 80 << 30
    for text, size in [
        ("24GiB", 24 << 30), ("24G", 24 << 30), ("24GB", 24 * 10**9), ("50%", total // 2),
        (7 << 30, 7 << 30), ("1.5 kib", 1536), ("10b", 10),
    ]:  # fmt: skip
        assert parse_limit(text, total) == size
    for text in ("", "GiB", "-1", "0", "24GG", "24G%", "all"):
        with pytest.raises(ValueError, match="24GiB or 90%"):
            parse_limit(text, total)
