"""What tests of recordings share: PyTorch's allocator with its history, and recorded scripts."""

import gzip
import signal
import sys
import threading
import types

import pytest
from stalloc import _rank, record

STREAM = 0x7FFF0000  # that marks are set on


class History:
    """PyTorch's caching allocator and its history, as far as a recording sees them."""

    def __init__(self):
        self.entries = None  # while nothing is recorded
        self.live = {}
        self.clock = 1_700_000_000_000_000
        self.ring = 0
        self.looks = 0
        self.how = None  # the context and the stacks that were asked for
        self.allocs = self.frees = 0
        self.waiting = []  # freed, and the event that another stream has yet to pass
        self.lock = threading.RLock()

    def _enter(self, action, address):
        self.clock += 10
        size, stream = self.live[address]
        entry = {
            "action": action, "addr": address, "size": size,
            "stream": stream, "time_us": self.clock, "frames": self._frames(),
        }  # fmt: skip
        if self.entries is not None:
            self.entries.append(entry)
            del self.entries[: -self.ring]

    def alloc(self, size, stream=0):
        with self.lock:
            self._look()
            address = next(a for a in range(1 << 20, 1 << 40, 1 << 20) if a not in self.live)
            self.live[address] = size, stream
            self.allocs += 1
            self._enter("alloc", address)
            return address

    def free(self, address, event=None):
        """A block that another stream uses ends at the first request after its event."""
        with self.lock:
            self._enter("free_requested", address)
            if event is None:
                self._complete(address)
            else:
                self.waiting.append((address, event))

    def _complete(self, address):
        self._enter("free_completed", address)
        self.frees += 1
        del self.live[address]

    def _look(self):
        for waits in list(self.waiting):
            if waits[1].is_set():
                self.waiting.remove(waits)
                self._complete(waits[0])

    def _frames(self):
        """As PyTorch gives them: the innermost first."""
        frames, at = [], sys._getframe(2) if self.how == ("alloc", "python") else None
        while at is not None:
            code = at.f_code
            frames.append({"filename": code.co_filename, "line": at.f_lineno, "name": code.co_name})
            at = at.f_back
        return frames

    def start(self, enabled="all", context="all", stacks="all", max_entries=0):
        self.how = (context, stacks) if enabled else self.how
        self.entries, self.ring = None if enabled is None else [], max_entries

    def snapshot(self):
        with self.lock:
            self.looks += 1
            return {"segments": [], "device_traces": [list(self.entries)]}

    def stats(self, device):
        return {"allocation.all.allocated": self.allocs, "allocation.all.freed": self.frees}


@pytest.fixture
def history(process):
    """A process with the fake PyTorch, whose CUDA keeps a history."""
    torch, history = process(), History()
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.init = torch.start_cuda
    cuda.Stream = lambda device: types.SimpleNamespace(cuda_stream=STREAM)
    cuda.caching_allocator_alloc = lambda size, device, stream: history.alloc(size, stream)
    cuda.caching_allocator_delete, cuda.memory_stats = history.free, history.stats
    cuda.get_device_name = lambda device: "Some GPU"
    cuda.memory._record_memory_history, cuda.memory._snapshot = history.start, history.snapshot
    torch.history = history
    return history


@pytest.fixture
def recorded(history, tmp_path, monkeypatch, request):
    """recorded(body, ...): records a script; its exit status and the trace's lines."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in (*_rank.VARIABLES, *_rank.WORLDS, "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, handler))

    def go(body, *arguments, options=(), file="trace.csv.gz"):
        script = tmp_path / "train it.py"
        script.write_text("import stalloc, sys, torch\nhistory = torch.history\n" + body)
        path = tmp_path / file
        path.unlink(missing_ok=True)
        status = record.main([*options, "-o", str(path), str(script), *arguments])
        if not path.exists():
            return status, None
        data = path.read_bytes()
        text = gzip.decompress(data) if file.endswith(".gz") else data
        return status, text.decode().splitlines()

    return go


LOOP = """
weights = history.alloc(1000)
if "--marked" in sys.argv:
    stalloc.mark("step 0")
for step in range(3):
    a, b = history.alloc(100 << 20), history.alloc(30 << 20, stream=0x1234)
    stalloc.mark("backward")
    history.free(a)
    history.free(b)
    stalloc.step()
"""


def marks_of(lines):
    return [line[2:] for line in lines if line.startswith("#")][1:]
