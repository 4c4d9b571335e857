"""Loading, interrupting, forking and ending a process that uses libstalloc.so."""

import shutil

from programs import SHIM


def test_loads_where_there_is_nothing(start, tmp_path):
    alone = tmp_path / "libstalloc.so"
    shutil.copy(SHIM, alone)
    text = """
assert L.stalloc_init() == 0 and L.stalloc_version().count(b".") == 2
assert L.stalloc_step(-1) == 0
assert error() == ""
"""
    assert start(text, conf=None, SHIM=str(alone)).end() == ("", "")


def test_ends_quietly_with_live_blocks_and_a_busy_engine(run):
    text = """
check()
keep = [malloc(MIB) for _ in range(20)]
def work(stream):
    while True:
        free(malloc(3 * MIB, stream), stream)
        L.stalloc_step(-1)
for stream in range(3):
    threading.Thread(target=work, args=(stream * 4096,), daemon=True).start()
time.sleep(0.3)
"""
    said, log = run(text)
    # A slow planner says once that it leaves steps out.
    log = [line for line in log.splitlines() if "steps end faster" not in line]
    assert (said, log) == ("", [])


def test_frees_at_exit(run):
    text = """
import atexit
blocks = [malloc(MIB) for _ in range(8)]
@atexit.register
def last():
    for block in blocks:
        free(block)
    check()
    L.stalloc_step(-1)
"""
    assert run(text) == ("", "")


def test_closing_the_library_changes_nothing(run):
    text = """
import _ctypes
check()
block = malloc(MIB)
ctypes.memset(block, 7, MIB)
handle, old = L._handle, L.stalloc_malloc
_ctypes.dlclose(handle)
again = old(2 * MIB, 0, None)
assert again and ctypes.string_at(block, MIB) == b"\\x07" * MIB
assert ctypes.CDLL(os.environ["SHIM"])._handle == handle
free(block), free(again)
"""
    assert run(text) == ("", "")


INTERRUPTED = """
check()
{handler}
rounds = 0
try:
    print("ready", flush=True)
    begin = time.monotonic()
    while time.monotonic() - begin < 30:
        for size in range(1, 9):
            free(malloc(size * MIB))
        rounds += 1
    sys.exit("never interrupted")
except KeyboardInterrupt:
    pass
print(rounds, flush=True)
for _ in range(100):
    check()
L.stalloc_step(-1)
"""


def interrupted(start, handler):
    program = start(INTERRUPTED.format(handler=handler))
    assert program.line() == "ready"
    program.interrupt()
    assert int(program.line()) >= 0
    assert program.end() == ("", "")


def test_keyboard_interrupt_arrives_during_misses(start):
    interrupted(start, "")


def test_keyboard_interrupt_with_a_handler_set_after_the_engine_was_opened(start):
    interrupted(start, "signal.signal(signal.SIGINT, signal.default_int_handler)")


def test_keyboard_interrupt_with_other_threads_allocating(start):
    interrupted(
        start,
        """
def others(stream):
    while True:
        free(malloc(2 * MIB, stream), stream)
for stream in (4096, 8192):
    threading.Thread(target=others, args=(stream,), daemon=True).start()
""",
    )


def test_forked_children_get_nothing_and_do_no_harm(run):
    text = """
check()
block = malloc(MIB)
ctypes.memset(block, 9, MIB)
stop = False
def work(stream):
    while not stop:
        free(malloc(MIB, stream), stream)
threads = [threading.Thread(target=work, args=(s,)) for s in (0, 4096, 8192)]
for thread in threads:
    thread.start()
for n in range(20):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(20)
        for _ in range(50):
            if malloc(MIB) is not None:
                os._exit(1)
        if "fork" not in error():
            os._exit(2)
        free(block)
        L.stalloc_step(-1)
        L.stalloc_empty_cache()
        os._exit(0)
    check()
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
assert ctypes.string_at(block, MIB) == b"\\x09" * MIB
free(block)
"""
    assert run(text) == ("", "")


def test_a_forked_child_that_ends_as_usual(run):
    text = """
check()
child = os.fork()
if child == 0:
    sys.exit(0 if malloc(MIB) is None and malloc(MIB) is None else 1)
assert os.waitpid(child, 0)[1] == 0
check()
"""
    out, err = run(text)
    assert out == "" and err.count("\n") == 1 and "forked child" in err


def test_multiprocessing_workers(run, tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text(
        """
import ctypes, os

def allocate(_):
    L = ctypes.CDLL(os.environ["SHIM"])
    L.stalloc_malloc.restype = ctypes.c_void_p
    L.stalloc_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return L.stalloc_malloc(1 << 20, 0, None) is not None
"""
    )
    text = f"""
import multiprocessing
sys.path.insert(0, {str(tmp_path)!r})
import worker
if __name__ == "__main__":
    check()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(worker.allocate, range(12)) == [False] * 12
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(worker.allocate, range(4)) == [True] * 4
    check()
"""
    out, _ = run(text)
    assert out == ""


def test_a_child_of_a_process_that_has_not_begun_may_begin(run):
    text = """
child = os.fork()
check()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert run(text) == ("", "")
