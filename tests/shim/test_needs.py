"""What Go ends a process over, and what it changes in one: looked at before it starts."""

import pytest
from programs import DRIVER, ENGINE

STATS = """
import resource
def fallback():
    stats = (ctypes.c_uint64 * 64)()
    L.stalloc_get_stats.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    assert L.stalloc_get_stats(0, stats, ctypes.sizeof(stats)) == 0
    return stats[23]
ctypes.CDLL(os.environ["STALLOC_CONF"].split("driver:")[1].split(",")[0])
"""


def test_no_file_descriptors_left(run):
    text = """
held = [os.dup(0) for _ in range(20)]
resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1, held[-1] + 1))
for fd in held[:3]:
    os.close(fd)
check()
assert fallback() == 1
"""
    _, err = run(STATS + text)
    assert err.count("\n") == 1 and "file descriptors" in err and "ulimit -n" in err


def test_no_addresses_left(run):
    text = """
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (150 << 20), resource.RLIM_INFINITY))
check()
assert fallback() == 1
"""
    _, err = run(STATS + text)
    assert err.count("\n") == 1 and "addresses" in err and "ulimit -v" in err


def test_no_threads_left(run):
    text = """
if os.geteuid() == 0:  # whom no limit of processes holds
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
check()
assert fallback() == 1
"""
    _, err = run(STATS + text)
    assert err.count("\n") == 1 and "threads" in err and "ulimit -u" in err


# Stacks of 2 KiB hold no frame of a signal on many processors.
SMALL = """
class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
C = ctypes.CDLL(None)
def work(stream, size):
    mine = ctypes.create_string_buffer(size)
    s = Stack(ctypes.addressof(mine), 0, size)
    assert C.sigaltstack(ctypes.byref(s), None) == 0
    for _ in range(200):
        for n in range(1, 6):
            free(malloc(n * MIB, stream), stream)
    assert L.stalloc_step(-1) == 0
    mine_again.append(mine)
mine_again = []
for round in range(3):
    threads = [threading.Thread(target=work, args=(4096 * i, SIZE)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert fallback() == 0
"""


@pytest.mark.parametrize("size", [2048, 4096, 8192])
def test_small_signal_stacks(run, size):
    out, err = run(STATS + f"SIZE = {size}" + SMALL, GOGC="5")
    assert (out, err) == ("", "")


def test_the_limit_of_open_files_stays(run):
    text = """
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))
check()
assert fallback() == 0
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256, 1024)
import subprocess
told = subprocess.run(["sh", "-c", "ulimit -Sn"], capture_output=True, text=True).stdout
assert told.strip() == "256", told
"""
    assert run(STATS + text, conf=f"driver:{DRIVER},engine:{ENGINE}") == ("", "")
