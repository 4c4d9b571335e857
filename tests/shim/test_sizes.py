"""Sizes that no device has: an out-of-memory error, and nothing else changes."""

import pytest
from programs import DRIVER, ENGINE

HUGE = """
D = ctypes.CDLL(os.environ["STALLOC_CONF"].split("driver:")[1].split(",")[0])
D.fakecuda_count.restype = ctypes.c_long
stats = (ctypes.c_uint64 * 64)()
L.stalloc_get_stats.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]

def blocks():
    assert L.stalloc_get_stats(0, stats, ctypes.sizeof(stats)) == 0
    return stats[16]

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


@pytest.mark.parametrize("pool", ["stitch", "gmlake"])
def test_sizes_beyond_any_device(run, pool):
    assert run(HUGE, conf=f"pool:{pool},driver:{DRIVER},engine:{ENGINE}") == ("", "")
