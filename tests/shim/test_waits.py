"""A thread waits for blocks that other streams are about to be done with, but never with the
interpreter's lock, which ctypes.CDLL gives up around a call and ctypes.PyDLL does not."""

import pytest
from programs import DRIVER, ENGINE

LEND = """
L = getattr(ctypes, "{library}")(os.environ["SHIM"])
L.stalloc_malloc.restype = ctypes.c_void_p
L.stalloc_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
L.stalloc_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
L.stalloc_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
L.stalloc_get_stats.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
stats = (ctypes.c_uint64 * 64)()
waits = 0
for step in range(200):
    for _ in range(50):
        block = malloc(2 * MIB)
        assert block, error()
        L.stalloc_record_stream(block, 0x5000)
        free(block)
        time.sleep(1e-4)
    assert L.stalloc_step(-1) == 0, error()
    assert L.stalloc_get_stats(0, stats, ctypes.sizeof(stats)) == 0
    waits = stats[29]
    if waits:
        break
print(waits > 0)
"""


@pytest.mark.parametrize(
    ("library", "wait", "waits"),
    [("CDLL", "on", True), ("CDLL", "off", False), ("PyDLL", "on", False)],
)
def test_waits(run, library, wait, waits):
    conf = f"wait:{wait},driver:{DRIVER},engine:{ENGINE}"
    text = LEND.replace("{library}", library).replace("200", "200" if waits else "4")
    said, errors = run(text, conf=conf, FAKECUDA_EVENT_DELAY="40")
    assert (said.strip(), errors) == (str(waits), "")
