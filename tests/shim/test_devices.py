"""Several devices in one process: each can use the others' memory, as PyTorch takes for granted."""

import pytest
from programs import DRIVER

# Blocks of device 0, one of them from before device 1 is in use; then what device 1 reads in
# them, as the driver answers.
TWO = f"""
D = ctypes.CDLL("{DRIVER}")
D.cuDevicePrimaryCtxRetain.argtypes = [ctypes.c_void_p, ctypes.c_int]
D.cuCtxPushCurrent_v2.argtypes = [ctypes.c_void_p]
D.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
def read(block, device):
    context, byte = ctypes.c_void_p(), ctypes.c_char()
    assert D.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert D.cuCtxPushCurrent_v2(context) == 0
    code = D.cuMemcpyDtoH_v2(ctypes.byref(byte), block, 1)
    assert D.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    return code or byte.value
before = malloc(5 * MIB)
ctypes.memset(before, 0x41, 5 * MIB)
assert read(before, 0) == b"A"
other = L.stalloc_malloc(MIB, 1, 0)
assert other, error()
ctypes.memset(other, 0x42, MIB)
after = malloc(40 * MIB)
ctypes.memset(after, 0x43, 40 * MIB)
print(read(before, 1), read(other, 0), read(after, 1), read(after, 0))
"""


def test_devices_are_peers(run):
    out, err = run(TWO, FAKECUDA_DEVICES="2")
    assert (out, err) == ("b'A' b'B' b'C' b'C'\n", "")


@pytest.mark.parametrize("fails", ["", "cuDeviceCanAccessPeer:1:999"])
def test_devices_that_cannot_be(run, fails):
    environment = {"FAKECUDA_FAIL": fails} if fails else {"FAKECUDA_PEERS": "0"}
    out, err = run(TWO, FAKECUDA_DEVICES="2", **environment)
    assert out.startswith("1 ") and out.endswith(" b'C'\n")
    assert err.count("one process per device") == 1
