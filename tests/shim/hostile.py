"""Files that somebody has made to do harm: plans, recordings, snapshots and logs.

Each is made when it is wanted, from a few lines, so that nobody has to keep them. What must be
said of them is in SECURITY.md: they run nothing, and take memory and time in proportion to their
size.
"""

import gzip
import json
import os
import pickle
import random
import struct

MIB = 1 << 20


def sealed(payload):
    return b"STALLOCP 10\n" + payload


def step(requests, stream=0):
    """One with requests of so many grains, made, freed and done at so many ticks."""
    names = ("size", "from", "free", "done")
    return {
        "stream": stream,
        "requests": [dict(zip(names, (512 * r[0], *r[1:]), strict=True)) for r in requests],
    }


def plan(*steps):
    return sealed(json.dumps({"steps": steps}, separators=(",", ":")).encode())


def named(what):
    """A plan with something else in it."""
    return plan(step(ONE)).replace(b'"steps"', what + b'"steps"')


def tangled(n):
    """Many small blocks, and as many large ones, whose lives overlap each other's."""
    some = random.Random(7)
    lives = [(i, some.randrange(i, 2 * n), 1 + some.randrange(256)) for i in range(2 * n)]
    return plan(step([(size, at, max(at, end), max(at, end)) for at, end, size in lives]))


def in_turns(n, rows):
    """A row of small blocks, and one that outlives all of them, again and again."""
    all = []
    for row in range(rows):
        at = 2 * row * n
        all += [(1, at + i, at + n + i, at + n + i) for i in range(n)] + [(n, at + n, -1, -1)]
    return plan(step(all))


ONE = [(8192, 0, 1, 1)]  # a block of 4 MiB
MOST = (1 << 63) - 1

PLANS = {
    "empty": lambda: b"",
    "text": lambda: b"id,lower,upper,size\n",
    "older": lambda: b"STALLOCP 9\n" + gzip.compress(bytes(64 * MIB), 9),
    "cut": lambda: plan(step(ONE))[:-9],
    "nothing": lambda: sealed(b""),
    "zeros": lambda: sealed(bytes(15 * MIB)),
    "deep": lambda: sealed(b"[" * 15 * MIB),
    "deep objects": lambda: sealed(b'{"steps":[' * MIB),
    "many steps": lambda: sealed(b'{"steps":[' + b"{}," * 5 * MIB + b"{}]}"),
    "many empty requests": lambda: sealed(
        b'{"steps":[{"requests":[' + b"{}," * 3 * MIB + b"{}]}]}"
    ),
    "too many empty requests": lambda: sealed(
        b'{"steps":[{"requests":[' + b"{}," * 20 * MIB + b"{}]}]}"
    ),
    "a long name": lambda: named(b'"' + b"x" * 15 * MIB + b'":1,'),
    "many names": lambda: named(b'"x":1,' * 3 * MIB),
    "a long number": lambda: sealed(b'{"steps":' + b"9" * 15 * MIB + b"}"),
    "as many requests as may be": lambda: plan(step([(1, i, i, i) for i in range(MIB)])),
    "as many steps as may be": lambda: plan(*[step(ONE, i) for i in range(1024)]),
    "too many requests": lambda: plan(step([(1, i, i, i) for i in range(MIB + 1)])),
    "a step twice": lambda: plan(*[step(ONE)] * 1000),
    "a request too large": lambda: plan(step([(MOST >> 9, 0, 1, 1)])),
    "as large as may be": lambda: plan(step([(1 << 33, 0, -1, -1)] * 1000)),
    "below nothing": lambda: plan(step([(-1, -5, -1, -7)])),
    "for ever": lambda: plan(step([(8192, 0, MOST, MOST), (8192, 1, MOST >> 1, MOST)])),
    "a far stream": lambda: plan(step(ONE, MOST)),
    "a fraction": lambda: plan(step([(8192, 0.5, 1, 1)])),
    "tangled": lambda: tangled(20_000),
    "more tangled": lambda: tangled(200_000),
    "in turns": lambda: in_turns(1000, 200),
}

EVENT = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 0, "frames": []}
START = b"\x80\x04"
WORKLOAD = b"# workload hostile\n"


class Evil:
    def __reduce__(self):
        return os.system, ("touch RAN",)


def snapshot(events, segments=()):
    return pickle.dumps({"segments": list(segments), "device_traces": [list(events)]})


def unlike(seed):
    """A thousand bytes that gzip makes nothing of."""
    return random.Random(seed).randbytes(1000)


def bomb(head, unit, unpacked=256 * MIB):
    """As much as gzip can make of little."""
    block = unit * max(1, MIB // len(unit))
    return gzip.compress(head, 9) + gzip.compress(block, 9) * (unpacked // len(block))


def slow_fuse(head, unit, tail, each, size=MIB // 2):
    """What gzip has packed by less than is refused, so that much of it is looked at: so many
    bytes of units for each 1,000 that it can do nothing with."""
    units = unit * (each // len(unit) + 1)
    return gzip.compress(head + b"".join(units + tail(unlike(i)) for i in range(size // 1000)), 9)


def batches(unit):
    """Lists of a thousand each, as pickles have them, each put away into the one below."""
    return b"(" + unit * 1000 + b"e"


def item(noise):
    """A string of bytes for the list below."""
    return b"\x8e" + struct.pack("<Q", len(noise)) + noise + b"a"


def comment(noise):
    return b"# " + noise.hex().encode() + b"\n"


RECORDINGS = {
    "evil.pickle": lambda: pickle.dumps(Evil()),
    "deep evil.pickle": lambda: snapshot([Evil()]),
    "global.pickle": lambda: START + b"cos\nsystem\n(S'touch RAN'\ntR.",
    "inst.pickle": lambda: b"\x80\x02(S'touch RAN'\nios\nsystem\n.",
    "extension.pickle": lambda: b"\x80\x02\x82\x01.",
    "persistent.pickle": lambda: b"\x80\x02Pabc\n.",
    "nested lists.pickle": lambda: START + b"]" * 5_000_000 + b"a" * 4_999_999 + b".",
    "nested marks.pickle": lambda: START + b"(" * 2_000_000 + b".",
    "nested tuples.pickle": lambda: START + b")" + b"\x85" * 5_000_000 + b".",
    "in itself.pickle": lambda: START + b"}\x94\x8c\x08segmentsh\x00s.",
    "a long string.pickle": lambda: START + b"\x8d" + struct.pack("<Q", MOST) + b"x",
    "long bytes.pickle": lambda: START + b"\x8e" + struct.pack("<Q", (1 << 64) - 1) + b"x",
    "a long frame.pickle": lambda: START + b"\x95" + struct.pack("<Q", (1 << 64) - 1) + b".",
    "far memo.pickle": lambda: (
        START
        + b"N"
        + b"".join(b"r" + struct.pack("<I", (1 << 32) - 1 - i) for i in range(200_000))
        + b"."
    ),
    "many lists.pickle": lambda: START + b"]" + batches(b"]") * 3000 + b".",
    "many dictionaries.pickle": lambda: START + b"]" + batches(b"}") * 3000 + b".",
    "many memos.pickle": lambda: START + b"N" + b"\x94" * 3_000_000 + b".",
    "many devices.pickle": lambda: pickle.dumps(
        {"segments": [], "device_traces": [[] for _ in range(500_000)]}
    ),
    "one event.pickle": lambda: (
        START + b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}\x94("
        b"\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x01u"
        + b"h\x00" * 300_000
        + b"eeu."
    ),
    "large numbers.pickle": lambda: snapshot([dict(EVENT, addr=1 << 63, size=1 << 70)]),
    "negative.pickle": lambda: snapshot([dict(EVENT, addr=-5, size=-512)]),
    "too large.pickle": lambda: snapshot([dict(EVENT, addr=i << 45, size=MOST) for i in range(20)]),
    "sums.pickle": lambda: snapshot([dict(EVENT, addr=i, size=1 << 48) for i in range(30_000)]),
    "streams.pickle": lambda: snapshot(
        [dict(EVENT, addr=4096 * i, stream=i) for i in range(40_000)]
    ),
    "lists.pickle.gz": lambda: bomb(START, b"]"),
    "nones.pickle.gz": lambda: bomb(START, b"N"),
    "memos.pickle.gz": lambda: bomb(START + b"N", b"\x94"),
    "frames.pickle.gz": lambda: bomb(START, b"\x95" + bytes(8)),
    "batches.pickle.gz": lambda: bomb(START + b"]", batches(b"]")),
    "slow nones.pickle.gz": lambda: slow_fuse(START + b"]", batches(b"N"), item, 7_900),
    "slower nones.pickle.gz": lambda: slow_fuse(START + b"]", batches(b"N"), item, 100_000),
    "slow lists.pickle.gz": lambda: slow_fuse(START + b"]", batches(b"]"), item, 2_600),
    "slow memos.pickle.gz": lambda: slow_fuse(START + b"]", b"\x94", item, 7_900),
    "slow dictionaries.pickle.gz": lambda: slow_fuse(
        START + b"]", batches(b"}\x8c\x04addrNs"), item, 30_000
    ),
    "header.csv.gz": lambda: bomb(WORKLOAD[:-1], b"x"),
    "marks.csv.gz": lambda: bomb(WORKLOAD, b"# x\n"),
    "lines.csv.gz": lambda: bomb(WORKLOAD, b"\n"),
    "slow marks.csv.gz": lambda: slow_fuse(WORKLOAD, b"# x\n", comment, 3_900),
    "slower marks.csv.gz": lambda: slow_fuse(WORKLOAD, b"# x\n", comment, 100_000),
    "marks.csv": lambda: WORKLOAD + b"# x\n" * 300_000,
    "steps.csv": lambda: WORKLOAD + b"".join(b"# step %d\n" % i for i in range(50_000)),
    "empty caches.csv": lambda: (
        WORKLOAD + b"".join(b"a,%d,4194304,0,1\n" % i for i in range(5000)) + b"e,1\n" * 50_000
    ),
    "streams.csv": lambda: WORKLOAD + b"".join(b"a,%d,512,%d,1\n" % (i, i) for i in range(40_000)),
    "streams and steps.csv": lambda: (
        WORKLOAD
        + b"".join(
            b"# step %d\n" % i
            + b"".join(
                b"a,%d,3145728,%d,1\nr,%d,1\nf,%d,1\n" % (n, n % 1000, n, n)
                for n in range(1000 * i, 1000 * i + 1000)
            )
            for i in range(10)
        )
    ),
    "used everywhere.csv": lambda: (
        WORKLOAD + b"a,0,512,0,1\n" + b"".join(b"s,0,%d,1\n" % (i % 1000) for i in range(50_000))
    ),
    "far ids.csv": lambda: (
        WORKLOAD + b"".join(b"a,%d,512,0,1\n" % (MOST - i * 997) for i in range(50_000))
    ),
    "huge.csv": lambda: WORKLOAD + b"".join(b"a,%d,%d,0,1\n" % (i, 1 << 48) for i in range(10_000)),
    "one line.csv": lambda: WORKLOAD + b"a" * 20 * MIB,
    "zeros.csv": lambda: WORKLOAD + bytes(MIB),
    "nothing.csv": lambda: b"",
}


def log(events):
    return json.dumps(events).encode()


CURVE = {"name": "device 0 memory", "ph": "C", "ts": 1, "args": {"allocated": 1, "idle": 1}}

LOGS = {
    "nested.json": lambda: b'{"x":' + b"[" * 2_000_000,
    "nested event.json": lambda: b'[{"x":' + b"[" * 2_000_000,
    "no end.json": lambda: b'["' + b"x" * 8 * MIB,
    "large numbers.json": lambda: (
        b'[{"name":"device 0 memory","ph":"C","ts":1e308,"args":{"allocated":1e308,"idle":9e999}}]'
    ),
    "large devices.json": lambda: log([dict(CURVE, name="device 99999999999999999999 memory")]),
    "many empties.json": lambda: b"[" + b"{}," * 300_000 + b"{}]",
    "many steps.json": lambda: log(
        [CURVE] + [{"name": f"step {i}", "ph": "X", "ts": i, "dur": 1} for i in range(30_000)]
    ),
    "negative.json": lambda: log(
        [dict(CURVE, ts=-1e18, args={"allocated": -1e18, "idle": -5})] * 9
    ),
}
