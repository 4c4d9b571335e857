"""What the driver asks for making, mapping and releasing memory, by the size of a handle.

Prints a table, and what the driver answers to calls that an allocator must not make.
ctypes on the driver's library is all it needs; PyTorch plays no part.

    python tests/gpu/test_handle_costs.py              # takes 2 GiB for each size
    python tests/gpu/test_handle_costs.py --mib 256
"""

import argparse
import contextlib
import ctypes
import datetime
import statistics
import subprocess
import sys
import time

import gpu
from gpu import GIB, MIB

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--mib", type=int, default=2048, help="taken for each size; 32 at least")
parser.add_argument("--probe", help=argparse.SUPPRESS)
options = parser.parse_args()
if options.mib < 32 or options.mib & (options.mib - 1):
    parser.error(f"--mib {options.mib}: want a power of two of at least 32")

SIZES = [2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB]
TOTAL = options.mib * MIB
RANGE = min(128 * MIB, TOTAL)  # which one call gives access to, or unmaps

PINNED, DEVICE, READ_WRITE = 1, 1, 3


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp"""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Access(ctypes.Structure):
    """CUmemAccessDesc"""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PROPERTIES = Properties(type=PINNED, location=Location(DEVICE, 0))
ACCESS = Access(Location(DEVICE, 0), READ_WRITE)


class Driver:
    """libcuda with a context on device 0."""

    def __init__(self):
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SystemExit(f"{sys.argv[0]}: needs an NVIDIA GPU: {error}") from None
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)

    def code(self, name, *arguments):
        """The call's result, 0 for success; its time goes to `nanoseconds`."""
        function = getattr(self._library, name)
        begin = time.perf_counter_ns()
        code = function(*arguments)
        self.nanoseconds = time.perf_counter_ns() - begin
        return code

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        if code:
            raise RuntimeError(f"{name}: {self.words(code)}")

    def words(self, code):
        name = ctypes.c_char_p()
        known = self.code("cuGetErrorName", code, ctypes.byref(name)) == 0
        return f"error {code}" + (f" ({name.value.decode()})" if known else "")

    def description(self):
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        major, minor = version.value // 1000, version.value % 1000 // 10
        driver = ctypes.create_string_buffer(80)
        with contextlib.suppress(OSError):
            library = ctypes.CDLL("libnvidia-ml.so.1")
            library.nvmlInit_v2()
            library.nvmlSystemGetDriverVersion(driver, 80)
            library.nvmlShutdown()
        return (
            f"{name.value.decode()}, driver {driver.value.decode() or 'unknown'} "
            f"(CUDA {major}.{minor}), {datetime.date.today()}"
        )


cuda = Driver()


class Space:
    """Reserved addresses; at the end whatever is still mapped and held is given back."""

    def __init__(self, size):
        self.size, self.handles, self.mapped = size, [], {}  # sizes by address
        address = ctypes.c_uint64()
        cuda.call("cuMemAddressReserve", ctypes.byref(address), u64(size), u64(0), u64(0), u64(0))
        self.address = address.value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for address in list(self.mapped):
            self.unmap(address)
        while self.handles:
            self.release()
        cuda.call("cuMemAddressFree", u64(self.address), u64(self.size))

    def create(self, size):
        handle = ctypes.c_uint64()
        cuda.call("cuMemCreate", ctypes.byref(handle), u64(size), ctypes.byref(PROPERTIES), u64(0))
        self.handles.append(handle)

    def map(self, address, size, handle):
        cuda.call("cuMemMap", u64(address), u64(size), u64(0), handle, u64(0))
        self.mapped[address] = size

    def access(self, address, size):
        cuda.call("cuMemSetAccess", u64(address), u64(size), ctypes.byref(ACCESS), u64(1))

    def unmap(self, address, size=None):
        """A mapping, or all of them in a range that has no gaps."""
        size = size or self.mapped[address]
        cuda.call("cuMemUnmap", u64(address), u64(size))
        for place in [place for place in self.mapped if address <= place < address + size]:
            del self.mapped[place]

    def release(self):
        cuda.call("cuMemRelease", self.handles.pop())


u64 = ctypes.c_uint64


def median(calls):
    """Of the times that the driver took for each call, in µs."""
    times = []
    for call, *arguments in calls:
        call(*arguments)
        times.append(1e-3 * cuda.nanoseconds)
    return statistics.median(times)


def prices(size):
    """The medians for handles of one size."""
    places = range(0, TOTAL, size)
    ranges = range(0, TOTAL, RANGE)
    with Space(TOTAL) as space:
        at = [space.address + place for place in places]
        each = {"create": median((space.create, size) for _ in places)}
        mapping = [(space.map, *each) for each in zip(at, [size] * len(at), space.handles)]
        each["map"] = median(mapping)
        each["access"] = median((space.access, address, size) for address in at)
        each["unmap"] = median((space.unmap, address) for address in at)
        for call, *arguments in mapping:
            call(*arguments)
        share = size / RANGE
        at = [space.address + place for place in ranges]
        each["access, of a range"] = share * median((space.access, a, RANGE) for a in at)
        each["unmap, of a range"] = share * median((space.unmap, a, RANGE) for a in at)
        each["release"] = median((space.release,) for _ in places)
    return each


def check_the_prices():
    rows = {size: prices(size) for size in SIZES}
    names = ["create", "map", "access", "access, of a range", "unmap", "unmap, of a range"]
    names.append("release")
    print(f"\n{cuda.description()}; medians of {TOTAL // MIB} MiB in handles of one size, µs a")
    print(f"handle; a range is {RANGE // MIB} MiB in one call\n")
    print(f"| handle | {' | '.join(names)} | making a GiB | mapping a GiB elsewhere |")
    print(f"|--:|{'--:|' * (len(names) + 2)}")
    for size, row in rows.items():
        alias = row["map"] + row["access, of a range"] + row["unmap, of a range"]
        made = row["create"] + row["map"] + row["access, of a range"]
        cells = [f"{row[name]:.1f}" for name in names]
        cells += [f"{1e-3 * cost * GIB / size:.2f} ms" for cost in (made, alias)]
        print(f"| {size // MIB} MiB | {' | '.join(cells)} |")
    print(flush=True)
    return f"{len(rows)} sizes"


def check_a_handle_is_mapped_twice():
    """Two addresses of one handle are the same bytes."""
    with Space(8 * MIB) as space:
        space.create(4 * MIB)
        second = space.address + 4 * MIB
        for address in (space.address, second):
            space.map(address, 4 * MIB, space.handles[0])
        space.access(space.address, 8 * MIB)
        word, there = ctypes.c_uint32(0x5EED1234), ctypes.c_uint32()
        cuda.call("cuMemcpyHtoD_v2", u64(space.address + MIB), ctypes.byref(word), u64(4))
        cuda.call("cuMemcpyDtoH_v2", ctypes.byref(there), u64(second + MIB), u64(4))
        assert there.value == word.value, f"wrote {word.value:#x}, read {there.value:#x}"
    return "written at one address, read at the other"


def unmap_a_part(space):
    """Half of a mapping: refused, or what is left of the mapping then?"""
    code = cuda.code("cuMemUnmap", u64(space.address), u64(2 * MIB))
    if code:
        return f"refused, {cuda.words(code)}"
    words = []
    for half, offset in (("first", 0), ("second", 2 * MIB)):
        byte = ctypes.c_ubyte()
        place = u64(space.address + offset)
        code = cuda.code("cuMemcpyDtoH_v2", ctypes.byref(byte), place, u64(1))
        words.append(f"the {half} half {f'is gone, {cuda.words(code)}' if code else 'can be read'}")
    space.mapped.clear()
    left = cuda.code("cuMemUnmap", u64(space.address), u64(4 * MIB))
    words.append(f"unmapping the whole: {cuda.words(left) if left else 'success'}")
    return f"taken; {', '.join(words)}"


def give_access_to_a_part(space):
    code = cuda.code(
        "cuMemSetAccess", u64(space.address), u64(2 * MIB), ctypes.byref(ACCESS), u64(1)
    )
    return f"refused, {cuda.words(code)}" if code else "taken"


def probe(name):
    """What comes of it, in a process of its own: a driver may crash where it should refuse."""
    command = [sys.executable, __file__, "--probe", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return done.stdout.strip()
    if done.returncode < 0:
        return f"killed by signal {-done.returncode} behind: {done.stdout.strip()}"
    raise AssertionError(f"exit status {done.returncode}: {done.stderr[-2000:]}")


def check_unmapping_a_part_of_a_mapping():
    return probe("unmap_a_part")


def check_access_to_a_part_of_a_mapping():
    return probe("give_access_to_a_part")


if options.probe:
    with Space(4 * MIB) as space:
        space.create(4 * MIB)
        space.map(space.address, 4 * MIB, space.handles[0])
        if options.probe == "unmap_a_part":
            space.access(space.address, 4 * MIB)
        print(globals()[options.probe](space), flush=True)
else:
    gpu.run(globals())
