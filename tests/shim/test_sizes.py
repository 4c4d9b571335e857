"""Sizes that no device has: an out-of-memory error, and nothing else changes."""

import re

import pytest
from programs import DRIVER, ENGINE, ROOT

HUGE = """
D = ctypes.CDLL(os.environ["STALLOC_CONF"].split("driver:")[1].split(",")[0])
D.fakecuda_count.restype = ctypes.c_long
stats = (ctypes.c_uint64 * 64)()
L.stalloc_get_stats.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]

def blocks():
    assert L.stalloc_get_stats(0, stats, ctypes.sizeof(stats)) == 0
    return stats[15]

L.stalloc_set_memory_fraction.argtypes = [ctypes.c_double, ctypes.c_int]
live = [malloc(MIB) for _ in range(100)]
assert blocks() == 100 and L.stalloc_step(-1) == 0
for fraction in (None, 1.0, 0.5, 1.0):
    if fraction:
        L.stalloc_set_memory_fraction(fraction, 0)
    for bits in range(31, 65):
        for size in (2**bits - 1, 2**bits, 2**bits + 1):
            if size < 2**64:
                assert malloc(size) is None, size
                assert error().startswith("CUDA out of memory"), (size, error())
for block in live:
    free(block)
assert blocks() == 0
check()
assert L.stalloc_step(-1) == 0, error()
assert D.fakecuda_count(b"cuMemAlloc") == 0
"""


@pytest.mark.parametrize("pool", ["gmlake", "range"])
def test_sizes_beyond_any_device(run, pool):
    assert run(HUGE, conf=f"pool:{pool},driver:{DRIVER},engine:{ENGINE}") == ("", "")


# Fills the device, and says how much that was and whether the driver served any of it.
FILL = """
class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]
s = Stats()
def fallback():
    assert L.stalloc_get_stats(0, ctypes.byref(s), ctypes.sizeof(s)) == 0
    return s.fallback
blocks = 0
while malloc(10 * 1000 * 1000):
    blocks += 1
print(fallback(), blocks)
explained = ctypes.create_string_buffer(4096)
L.stalloc_explain(0, explained, len(explained))
print(explained.value.decode())
"""


def names():
    """The fields of struct stalloc_stats."""
    header = (ROOT / "cshim" / "stalloc.h").read_text()
    body = re.sub(r"/\*.*?\*/", "", header[header.index("struct stalloc_stats {") :], flags=re.S)
    fields = body[body.index("{") + 1 : body.index("}")]
    return re.findall(r"\w+(?=[,;])", fields)


# The device has 1 GiB.
@pytest.mark.parametrize(
    ("limit", "least", "most"),
    [
        ("500MB", 45, 50),
        ("500MiB", 48, 53),
        ("0.5GB", 45, 50),
        ("500m", 48, 53),
        ("524288000", 48, 53),
        ("50 %", 49, 54),
        ("12.5%", 11, 14),
        ("70GB", 98, 108),
    ],
)
def test_limits_as_people_write_them(run, limit, least, most):
    conf = f"limit:{limit},driver:{DRIVER},engine:{ENGINE}"
    out, err = run(f"NAMES = {names()}" + FILL, conf=conf)
    fallback, blocks = map(int, out.splitlines()[0].split())
    assert fallback == 0 and least <= blocks <= most and err == ""


def test_what_the_driver_serves_alone_is_counted_and_explained(run):
    conf = f"driver:{DRIVER},engine:/nowhere/libstalloc_engine.so"
    out, err = run(f"NAMES = {names()}" + FILL, conf=conf)
    first, explained = out.split("\n", 1)
    fallback, blocks = map(int, first.split())
    assert fallback == blocks > 90
    assert f"so far {blocks} of them" in explained and "/nowhere/" in explained
    assert err.count("plain driver allocations") == 1


def test_enable_refuses_what_is_no_amount(run):
    text = f"""
sys.path.insert(0, {str(ROOT / "python")!r})
from stalloc import SettingError, _config, _library
for value in ("70GX", 0.9, "0.9", "-1", "90", "200%", float("nan"), float("inf")):
    try:
        _library.Library(os.environ["SHIM"]).check(_config.merge("", {{"limit": value}}))
    except SettingError as error:
        assert f"limit:{{value}}" in str(error) and "90%" in str(error)
    else:
        raise AssertionError(value)
"""
    run(text, conf=None)
