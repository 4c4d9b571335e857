"""A recording says when an event has passed, though the program asks for nothing then."""

import ctypes
import time
import types

import pytest
from stalloc import StallocError
from stalloc.record_poll import POLL_BYTES, Poll

# The event passes while the program asks for nothing, and it waits for that or for a while.
WAITING = """
import threading, time
event = threading.Event()
kept, block = history.alloc(1000), history.alloc(2000)
history.free(block, event)
time.sleep(0.05)
assert block in history.live
event.set()
end = time.monotonic() + float(sys.argv[1])
while block in history.live and time.monotonic() < end:
    time.sleep(0.001)
noticed = block not in history.live
history.free(history.alloc(3000))
assert noticed == (sys.argv[2] == "noticed"), "noticed: " + str(noticed)
"""


def without_times(lines):
    return [line.rpartition(",")[0] if line[0] != "#" else line for line in lines]


def test_events_are_noticed_without_requests(recorded):
    status, polled = recorded(WAITING, "60", "noticed")
    assert status == 0
    status, plain = recorded(WAITING, "0.2", "late", options=["--poll", "0"])
    assert status == 0
    assert without_times(polled) == without_times(plain)
    assert [line.split(",")[0] for line in plain[2:]] == ["a", "a", "r", "f", "a", "r", "f"]


def test_what_the_recording_takes_it_gives_back(recorded, history):
    body = (
        "import time\n"
        "end = time.monotonic() + 60\n"
        "while history.allocs < 10 and time.monotonic() < end: time.sleep(0.001)\n"
        "history.alloc(7)\n"
    )
    recorded(body)
    assert [size for size, _ in history.live.values()] == [7]
    assert history.allocs > 10  # the thread has asked


def test_own_requests_are_kept_apart_by_size_too(recorded):
    """PyTorch has 32 streams, so a program's may be the recording's."""
    from recording import STREAM

    status, lines = recorded(f"history.free(history.alloc(4096, stream={STREAM}))\n")
    assert status == 0 and [line[:2] for line in lines[2:]] == ["a,", "r,", "f,"]


def test_a_program_goes_on_where_it_cannot_be_polled(recorded, capsys):
    body = (
        "import threading\n"
        "refused = threading.Event()\n"
        "alloc = torch.cuda.caching_allocator_alloc\n"
        "def refuse(size, *rest):\n"
        f"    if size == {POLL_BYTES}:\n"
        "        refused.set()\n"
        "        raise RuntimeError('no memory')\n"
        "    return alloc(size, *rest)\n"
        "torch.cuda.caching_allocator_alloc = refuse\n"
        "assert refused.wait(60)\n"
        "history.alloc(7)\n"
    )
    status, lines = recorded(body)
    assert status == 0 and len(lines) == 3
    assert "could not be polled" in capsys.readouterr().err


@pytest.fixture
def exported(compiled, tmp_path):
    """PyTorch with functions in C, and what they count."""
    (tmp_path / "lib").mkdir()
    # Each call of a PyDLL's holds Python's lock.
    library = ctypes.PyDLL(str(compiled("stub_polled.c", "libtorch_cuda.so", tmp_path / "lib")))
    streams = []
    cuda = types.SimpleNamespace(set_stream=streams.append)
    torch = types.SimpleNamespace(__file__=str(tmp_path / "__init__.py"), cuda=cuda)
    counts = {name: ctypes.c_int.in_dll(library, name) for name in ("polled", "fails")}
    again = library.polled_again
    return types.SimpleNamespace(torch=torch, streams=streams, polled_again=again, **counts)


def test_python_s_lock_is_not_needed(exported):
    poll = Poll(exported.torch, 0, "its stream", 500)
    poll.start()
    end = time.monotonic() + 60
    while exported.polled.value == 0 and time.monotonic() < end:
        time.sleep(0.001)
    assert exported.polled_again()  # by another thread, while this one holds the lock
    poll.stop()
    after = exported.polled.value
    time.sleep(0.01)
    assert exported.polled.value == after and exported.streams == ["its stream"]
    assert poll.failure is None


def test_the_loop_ends_where_pytorch_fails(exported):
    exported.fails.value = 1
    poll = Poll(exported.torch, 0, "its stream", 500)
    poll.start()
    poll._thread.join(60)
    assert not poll._thread.is_alive() and isinstance(poll.failure, StallocError)
    poll.stop()
