"""Settings and surroundings that are wrong: a clear line, and a process that goes on."""

import subprocess

import pytest
from programs import DRIVER, ENGINE, ROOT

GOOD = f"driver:{DRIVER},engine:{ENGINE}"

# What settings of the price are not.
PRICE = {
    "a whole number from 16 to 8192": [
        f"handle_part:{n}" for n in ("15", "8193", "", "3.5", "-20", "99999999999999999999")
    ],
    "a whole number from 1 to 64": ["grow_part:0", "grow_part:65"],
    "a power of two, from 2MiB to 1GiB": [
        f"handle_most:{n}" for n in ("1MiB", "3MiB", "2GiB", "10%")
    ],
    "from 512 bytes to 1MiB": ["small_limit:511", "small_limit:2MiB", "small_limit:0"],
}


def test_settings_made_after_the_start_are_seen(run):
    text = f"""
os.environ["STALLOC_CONF"] = "{GOOD}"
check()
"""
    assert run(text, conf=None) == ("", "")


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("colour:blue", ["unknown key", "colour", "known are", "engine", "fraglimit"]),
        ("plan", ["plan", "key:value"]),
        ("plan:perhaps", ["plan:perhaps", "on, off or always"]),
        ("limit:much", ["limit:much", "80GiB"]),
        ("limit:-1GiB", ["limit:-1GiB", "80GiB"]),
        ("limit:70GX", ["limit:70GX", "80GiB", "80GB", "90%"]),
        ("limit:0.9", ["limit:0.9", "90%"]),
        ("limit:101%", ["limit:101%", "90%"]),
        ("limit:70", ["limit:70", "at least 2MiB"]),
        ("limit:0", ["limit:0", "at least 2MiB"]),
        ("limit:0.00000005%", ["limit:0.00000005%", "at least 0.1%"]),
        ("limit:nan%", ["limit:nan%", "90%"]),
        ("window:100TiB", ["window:100TiB", "at most 4TiB"]),
        ("trace:" + "a" * 512, ["trace:aaa", "at most 511 bytes"]),
        ("limit:1GiB,limit:2GiB", ["limit is set twice, to 1GiB and to 2GiB"]),
        ("route:best", ["route:best", "pluggable or auto"]),
        (":blue", ['":blue": expected key:value']),
        (
            "limit:much,plan:perhaps,colour:blue,shape:round",
            ["limit:much", "plan:perhaps", '"colour"', '"shape"; known are plan'],
        ),
        ("log:\x1b[2J", ["log:?[2J: expected debug"]),
        ("window:0", ["window:0", "at least 1GiB"]),
        ("window:50%", ["window:50%", "at least 1GiB"]),
        ("fraglimit:0GB", ["fraglimit:0GB", "80GB"]),
        *((wrong, [wrong, expected]) for expected, values in PRICE.items() for wrong in values),
        ("pool:lake", ["pool:lake", "range or gmlake"]),
        ("fraglimit:some", ["fraglimit:some", "80GiB"]),
        ("log:loud", ["log:loud", "debug"]),
        ("engine:", ["engine:", "path"]),
        ("x" * 3000, ["longer than", "2047"]),
    ],
)
def test_wrong_settings_are_told_before_anything_is_allocated(run, conf, words):
    text = """
assert L.stalloc_check_conf(os.environb[b"STALLOC_CONF"]) == -1
told = error()
assert malloc(MIB) is None and malloc(MIB) is None and told in error()
assert L.stalloc_init() == -1 and error() == told
assert L.stalloc_load_plan(0, b"/absent") < 0 and L.stalloc_step(-1) == 0
print(told)
"""
    out, err = run(text, conf=f"{conf},{GOOD}")
    for word in ["STALLOC_CONF", *words]:
        assert word in out
    told = out.rstrip("\n")
    assert err == f"stalloc: {told}. Nothing is allocated until that is corrected\n"


def test_checking_changes_nothing(run):
    text = """
assert L.stalloc_check_conf(b"limit:much") == -1 and L.stalloc_check_conf(b"plan:off") == 0
assert L.stalloc_check_conf(b"") == 0 and L.stalloc_check_conf(None) == 0
assert L.stalloc_init() == 0
check()
"""
    assert run(text) == ("", "")


def test_the_longest_path(run):
    text = """
for path, status in (("a" * 511, 0), ("a" * 512, -1), ("%r" * 170, 0), ("a" * 509 + "%r", -1)):
    assert L.stalloc_check_conf(f"trace:{path}".encode()) == status, path
"""
    assert run(text, RANK="123") == ("", "")


def test_the_rank_makes_it_too_long(run):
    """It fits as it is written, and would be cut for the engine."""
    keys = ("driver", "trace", "oom_report", "engine")
    paths = [f"{key}:" + "%r" * 30 + "a" * 325 for key in keys]
    text = f"""
assert L.stalloc_check_conf(b"{",".join(paths)}") == int(os.environ["EXPECTED"]), error()
print(error())
"""
    out, _ = run(text, RANK="123456", EXPECTED="-1")
    assert out == "STALLOC_CONF: with the rank for each %r it is longer than 2047 bytes\n"
    assert run(text, RANK="12", EXPECTED="0") == ("\n", "")


def test_blanks_and_the_rank(run, tmp_path):
    """As in Python: blanks around settings do not count, %r is the rank."""
    text = "check(); L.stalloc_close(-1)"
    run(text, conf=f" {GOOD} , trace : {tmp_path}/%r ,", RANK="3")
    assert [file.name for file in tmp_path.iterdir()] == ["3"]


def test_a_trace_that_ends_is_told_of(run):
    _, err = run("check(); check()", conf=f"{GOOD},trace:/dev/full")
    assert err.count("the trace ends here") == err.count("\n") == 1, err
    assert "/dev/full" in err and "no space left on device" in err


def test_an_ignored_setting_is_told_once(run):
    """Programs that set what an earlier release knew go on as before."""
    _, err = run("check(); check()", conf=f"{GOOD},cache:/tmp/plans")
    assert err.count("a setting of earlier releases is ignored: cache") == err.count("\n") == 1


def test_a_tiny_share_is_a_limit(run):
    text = "assert malloc(4 * MIB) is None and 'out of memory' in error()\ncheck()"
    assert run(text, conf=f"limit:0.1%,{GOOD}")[1] == ""


def test_memory_fractions(run):
    text = """
set = L.stalloc_set_memory_fraction
set.argtypes = [ctypes.c_double, ctypes.c_int]
for fraction in ("nan", "-0.5", "1.5", "inf"):
    assert set(float(fraction), 0) == -5 and f"{float(fraction):g} is no fraction" in error()
assert set(0.5, 99) == -5 and set(0.5, 5) == -5 and "no device 5" in error(), error()
assert set(0, 0) == 0
assert malloc(MIB) is None and set(0.5, 0) == 0
check()
"""
    _, err = run(text)
    assert err.count("\n") == 1 and "the memory fraction is not set" in err


def test_a_report_that_cannot_be_written(run, tmp_path):
    _, err = run("check()", conf=f"oom_report:{tmp_path}/absent/%p.txt,{GOOD}")
    assert err.count("\n") == 1
    assert "the report of an out of memory cannot be written" in err and f"{tmp_path}/absent" in err
    assert run("check()", conf=f"oom_report:{tmp_path}/%p.txt,{GOOD}")[1] == ""


def test_gmlake_as_the_pool(run):
    text = """
big = [malloc(n * MIB) for n in (64, 64)]
for block in big:
    free(block)
stitched = malloc(128 * MIB)
assert stitched and stitched not in big, error()
again = [malloc(512) for _ in range(3)]
free(stitched)
assert malloc(128 * MIB) == stitched
check(128 * MIB)
"""
    _, err = run(text, conf=f"pool:gmlake,fraglimit:2MiB,limit:400MiB,plan:off,{GOOD}")
    assert err == ""


def test_no_engine_library(run):
    text = """
check()
keep = [malloc(n * MIB) for n in range(1, 9)]
assert all(keep) and L.stalloc_step(-1) == 0
for block in keep:
    free(block)
    free(block)
"""
    _, err = run(text, conf=f"driver:{DRIVER},engine:/nowhere/libstalloc_engine.so")
    lines = err.splitlines()
    assert len(lines) == 2
    assert "/nowhere/libstalloc_engine.so" in lines[0] and "make build" in lines[0]
    assert "plain driver allocations" in lines[0] and "double free" in lines[1]


def test_an_engine_that_is_none(run):
    _, err = run("check()", conf=f"driver:{DRIVER},engine:{DRIVER}")
    assert err.count("\n") == 1
    assert str(DRIVER) in err and "stalloc_engine_start" in err and "another version" in err


NOTHING = """
assert malloc(MIB) is None
assert malloc(MIB) is None
print(error())
free(123 << 20)
L.stalloc_empty_cache()
assert L.stalloc_step(-1) == 0
"""


def test_no_driver(run):
    out, err = run(NOTHING, conf=f"driver:/nowhere/libcuda.so.1,engine:{ENGINE}")
    assert "/nowhere/libcuda.so.1" in out and "NVIDIA driver" in out
    assert err.count("cannot open the CUDA driver library") == 1


def test_a_driver_that_is_none(run):
    out, _ = run(NOTHING, conf=f"driver:{ENGINE},engine:{ENGINE}")
    assert str(ENGINE) in out and "cuInit" in out


def test_no_device(run):
    out, _ = run(NOTHING, FAKECUDA_DEVICES="0")
    assert "device" in out.lower()


def test_a_driver_that_fails_from_the_first_call_on(run):
    out, _ = run(NOTHING, FAKECUDA_FAIL="cuInit:*:999")
    assert "cuInit" in out and "999" in out


def test_another_device_than_there_is(run):
    text = """
check()
assert L.stalloc_malloc(MIB, 5, None) is None
print(error())
check()
"""
    out, err = run(text)
    assert "there is no device 5" in out and "CUDA_VISIBLE_DEVICES" in out
    assert err == ""  # nothing has failed: the other device goes on


def test_a_device_that_fails_leaves_the_others_to_the_engine(run):
    text = """
assert malloc(MIB), error()
D = ctypes.CDLL(os.environ["STALLOC_CONF"].split("driver:")[1].split(",")[0])
D.fakecuda_count.restype = ctypes.c_long
D.fakecuda_fail(b"cuMemAddressReserve:*:999")
first = L.stalloc_malloc(MIB, 1, None)
assert first, error()
D.fakecuda_fail(b"")
assert L.stalloc_malloc(MIB, 5, None) is None
plain = D.fakecuda_count(b"cuMemAlloc")
L.stalloc_free(first, 0, 1, None)
for n in range(1, 9):
    assert L.stalloc_malloc(n * MIB, 1, None), error()
assert D.fakecuda_count(b"cuMemAlloc") == plain + 8
check(2 * MIB)
assert D.fakecuda_count(b"cuMemAlloc") == plain + 8
"""
    _, err = run(text, FAKECUDA_DEVICES="2")
    assert err.count("the engine does not serve device 1") == 1 and err.count("\n") == 1


def test_memory_runs_out_and_comes_back(run):
    text = """
blocks = []
while block := malloc(50 * MIB):
    blocks.append(block)
print(len(blocks), error())
for block in blocks[::2]:
    free(block)
assert malloc(50 * MIB), error()
"""
    out, err = run(text)
    assert 18 <= int(out.split()[0]) <= 20
    assert "out of memory" in out and "GiB" in out and err == ""


# An allocation that fails is explained, also by what NVML says of the device.
EXPLAINED = """
if now:
    ctypes.CDLL(os.environ["STALLOC_CONF"].split("engine:")[1], os.RTLD_NOW)
check()
while malloc(50 * MIB):
    pass
print(error())
D = ctypes.CDLL(os.environ["STALLOC_CONF"].split("driver:")[1].split(",")[0])
D.fakecuda_count.restype = ctypes.c_long
assert D.fakecuda_count(b"cuMemAlloc") == 0
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    """A folder with a libnvidia-ml.so.1."""
    folder = tmp_path_factory.mktemp("nvml")
    source = ROOT / "cuda" / "nvml" / "testdata" / "nvml.c"
    command = ["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source]
    subprocess.run(command, check=True)
    return folder


@pytest.mark.parametrize("bound", ["at the call", "at load", "by dlopen"])
def test_nvml_however_symbols_are_bound(run, nvml, bound):
    environment = {"LD_BIND_NOW": "1"} if bound == "at load" else {}
    text = f"now = {bound == 'by dlopen'}" + EXPLAINED
    out, err = run(text, LD_LIBRARY_PATH=str(nvml), **environment)
    assert "out of memory" in out and "process 1 " in out and "60.00 GiB" in out
    assert err == ""


def test_no_nvml(run):
    out, err = run("now = False" + EXPLAINED, LD_BIND_NOW="1")
    assert "out of memory" in out and "process 1 " not in out and err == ""


@pytest.mark.parametrize(
    "conf",
    [
        "handle_part:16,handle_most:1GiB,grow_part:1,small_limit:512",
        "handle_part:8192,handle_most:2MiB,grow_part:64,small_limit:1MiB",
    ],
)
def test_the_ends_of_the_price(run, conf):
    text = """
for step in range(4):
    for size in (1, MIB // 2, MIB, 40 * MIB):
        check(size)
    assert L.stalloc_step(-1) == 0
"""
    assert run(text, conf=f"{conf},{GOOD}") == ("", "")
