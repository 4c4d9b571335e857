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
import zlib

MIB = 1 << 20
MANY = 1 << 60


def number(n):
    """A number of variable length, as plan files have them."""
    n, out = (n << 1) ^ (n >> 63), bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def numbers(*all):
    return b"".join(map(number, all))


def sealed(payload):
    """A plan file with a right checksum."""
    file = b"STALLOCP 8\n" + payload
    return file + struct.pack("<I", zlib.crc32(file))


def head(handle=0, boundaries=1, late=(0, 0), counts=b""):
    return b"\0" + numbers(handle, boundaries, *late, len(counts)) + counts


def arena(hold, first=(), step=(), ordinal=0, small=0):
    """One with requests of so many grains, at so many, that live for so long."""
    lists = (numbers(len(each)) + b"".join(numbers(*r) for r in each) for each in (first, step))
    return numbers(ordinal, small, hold) + b"".join(lists)


def plan(*arenas, **fields):
    return sealed(head(**fields) + numbers(len(arenas)) + b"".join(arenas))


def tangled(n, repeat=1):
    """Many small blocks side by side, and as many that lie over all of them."""
    row = [(256, 256 * i, 1) for i in range(n)]
    return plan(arena(1 << 42, (row + [(256 * n, 0, 1)] * n) * repeat))


def in_turns(n, rows):
    """A row of small blocks, and one over all of them, again and again."""
    row = [(1, i, 1) for i in range(n)] + [(n, 0, 1)]
    return plan(arena(1 << 30, row * rows, row * rows))


ONE = [(8192, 0, 1)]  # a block of 4 MiB
MOST = (1 << 63) - 1

PLANS = {
    "empty": lambda: b"",
    "text": lambda: b"id,lower,upper,size\n",
    "older": lambda: b"STALLOCP 7\n" + gzip.compress(bytes(64 * MIB), 9),
    "cut": lambda: plan(arena(64 * MIB, ONE))[:-9],
    "checksum": lambda: plan(arena(64 * MIB, ONE))[:-1] + b"!",
    "zeros": lambda: sealed(bytes(15 * MIB)),
    "ones": lambda: sealed(b"\xff" * 15 * MIB),
    "many arenas, it says": lambda: sealed(head() + numbers(MANY)),
    "many requests, it says": lambda: sealed(head() + numbers(1, 0, 0, 0, MANY)),
    "many counts, it says": lambda: sealed(b"\0" + numbers(0, 1, 0, 0, MANY)),
    "many arenas": lambda: sealed(head() + numbers(3 * MIB) + bytes(15 * MIB)),
    "many requests": lambda: sealed(
        head() + numbers(1, 0, 0, 0, 5 * MIB) + b"\2\1\0" * 5 * MIB + b"\0"
    ),
    "as many requests as may be": lambda: sealed(
        head()
        + numbers(1, 0, 0, 2 * MIB, MIB // 2)
        + b"\2\1\0" * (MIB // 2)
        + numbers(MIB // 2)
        + b"\2\1\0" * (MIB // 2)
    ),
    "as many entries as may be": lambda: sealed(
        head() + numbers(1, 0, 0, 2 * MIB, MIB) + b"\2\0\2" * MIB + b"\0"
    ),
    "as many arenas as may be": lambda: plan(
        *(arena(1 << 42, ONE, ONE, i, s) for i in range(2048) for s in (0, 1))
    ),
    "many counts": lambda: plan(arena(64 * MIB, ONE), counts=bytes(15 * MIB)),
    "an arena twice": lambda: plan(*[arena(1 << 40, ONE)] * 1000),
    "all of the address space": lambda: plan(arena(MOST & -(2 * MIB), ONE)),
    "as much as may be": lambda: plan(arena(1 << 42, ONE, [(8192, (1 << 33) - 8192, 1)])),
    "a request too large": lambda: plan(arena(1 << 42, [(MOST >> 9, 0, 1)])),
    "an offset too far": lambda: plan(arena(1 << 42, [(1, MOST >> 9, 1)])),
    "below nothing": lambda: plan(arena(-2 * MIB, [(-1, -5, -1)])),
    "all in one place": lambda: plan(arena(64 * MIB, [(8192, 0, 9)] * 4 + [(8192, 1, 9)] * 4)),
    "for ever": lambda: plan(arena(64 * MIB, [(8192, 0, MOST), (8192, 8192, MOST >> 1)] * 9)),
    "late": lambda: plan(arena(64 * MIB, ONE), late=(MOST, MOST)),
    "too late": lambda: plan(arena(64 * MIB, ONE), late=(-5, -7)),
    "large handles": lambda: plan(arena(64 * MIB, ONE), handle=MOST & -(2 * MIB)),
    "a far stream": lambda: plan(arena(64 * MIB, ONE, ordinal=MOST)),
    "many boundaries": lambda: plan(arena(64 * MIB, ONE), boundaries=1 << 10),
    "too many boundaries": lambda: plan(arena(64 * MIB, ONE), boundaries=1 << 40),
    "tangled": lambda: tangled(20_000),
    "more tangled": lambda: tangled(400_000),
    "tangled in turns": lambda: in_turns(1000, 500),
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
