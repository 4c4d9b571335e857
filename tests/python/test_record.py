"""Recording: from PyTorch's memory history to a trace that the Go reader takes."""

import gzip
import json
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
from documented import of, split
from stalloc import StallocError, StallocWarning, _rank, record
from stalloc.record_history import MARK_BYTES as MARK
from stalloc.record_history import History as Recorded
from stalloc.record_history import Lines

ROOT = Path(__file__).resolve().parents[2]
STREAM = 0x7FFF0000  # that marks are set on


class History:
    """PyTorch's caching allocator and its history, as far as a recording sees them."""

    def __init__(self):
        self.entries = None  # while nothing is recorded
        self.live = {}
        self.clock = 1_700_000_000_000_000
        self.ring = 0
        self.looks = 0
        self.allocs = self.frees = 0
        self.lock = threading.RLock()

    def _enter(self, action, address):
        self.clock += 10
        size, stream = self.live[address]
        entry = {
            "action": action, "addr": address, "size": size,
            "stream": stream, "time_us": self.clock, "frames": [],
        }  # fmt: skip
        if self.entries is not None:
            self.entries.append(entry)
            del self.entries[: -self.ring]

    def alloc(self, size, stream=0):
        with self.lock:
            address = next(a for a in range(1 << 20, 1 << 40, 1 << 20) if a not in self.live)
            self.live[address] = size, stream
            self.allocs += 1
            self._enter("alloc", address)
            return address

    def free(self, address):
        with self.lock:
            self._enter("free_requested", address)
            self._enter("free_completed", address)
            self.frees += 1
            del self.live[address]

    def start(self, enabled="all", context="all", max_entries=0):
        self.entries, self.ring = None if enabled is None else [], max_entries

    def snapshot(self):
        with self.lock:
            self.looks += 1
            return {"segments": [], "device_traces": [list(self.entries)]}

    def stats(self, device):
        return {"allocation.all.allocated": self.allocs, "allocation.all.freed": self.frees}


def entry(action, address, size=512, stream=0, time=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": time}


def test_the_format():
    history = [
        entry("alloc", 0x10, 4, 0x7F00, 1000),
        entry("segment_alloc", 0x10, 2 << 20, 0, 1001),
        entry("alloc", 0x20, 100, 0, 1002),
        {"action": 7},
        entry("free_requested", 0x30, MARK, STREAM, 1003),
        entry("free_completed", 0x30, MARK, STREAM, 1003),
        entry("free_requested", 0x10, 4, 0x7F00, 1004),
        entry("alloc", 0x30, 8, 0x7E00, 1005),
        {"action": "oom", "size": 5, "device_free": 1, "time_us": 1006},
        entry("free_completed", 0x10, 4, 0x7F00, 1007),
        entry("alloc", 0x10, 4, 0x7F00, 1006),  # a later look's clock
    ]
    want = ["a,0,4,1,0", "a,1,100,0,2", "#7", "r,0,4", "a,2,8,2,5", "f,0,7", "a,3,4,1,7"]
    assert list(Lines().of(history)) == want
    lines = Lines()  # it does not matter where one look ends and the next begins
    assert [line for e in history for line in lines.of([e])] == want and lines.events == 6


def test_a_history_with_gaps():
    history = [
        entry("free_requested", 0x99),  # older than the history
        entry("free_completed", 0x99),
        entry("alloc", 0x10),
        entry("alloc", 0x10, 7),  # its free is missing
        entry("free_completed", 0x10, 7),  # without the request
        entry("free_completed", 0x10, 7),
    ]
    assert list(Lines().of(history)) == [
        "a,0,512,0,0", "r,0,0", "f,0,0", "a,1,7,0,0", "r,1,0", "f,1,0",
    ]  # fmt: skip


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


def test_steps_from_the_first_request(recorded):
    status, lines = recorded(LOOP)
    assert status == 0 and lines[0] == "# workload train_it torch 2.11.0 Some GPU"
    assert marks_of(lines) == [
        "step 0", "backward", "step 1", "backward", "step 2", "backward", "end",
    ]  # fmt: skip
    assert lines[2] == "a,0,1000,0,0" and f",{MARK}," not in "".join(lines)


def test_set_up_is_told_apart(recorded):
    _, lines = recorded(LOOP, "--marked")
    assert marks_of(lines)[:3] == ["setup", "step 0", "backward"]
    assert lines[2:4] == ["a,0,1000,0,0", "# step 0"]


def test_the_optimizers_mark_the_steps_where_the_script_does_not(recorded):
    body = (
        "class Adam: pass\nadam = Adam()\nfor _ in range(2):\n    history.free(history.alloc(9))\n"
    )
    _, lines = recorded(body + "    torch.step(adam)\n")
    assert marks_of(lines) == ["step 0", "step 1", "end"]
    _, lines = recorded(body + "    stalloc.step()\n    torch.step(adam)\n")
    assert marks_of(lines) == ["step 0", "step 1", "end"]


@pytest.mark.parametrize("steps", ["torch.step(adam)", "torch.step(adam); torch.step(adam)"])
def test_the_optimizer_steps_before_the_script_says_where_a_step_ends(recorded, steps):
    body = f"""
class Adam: pass
adam = Adam()
stalloc.mark("step 0")
for _ in range(3):
    history.alloc(8)
    {steps}
    history.alloc(9)
    stalloc.step()
"""
    _, lines = recorded(body)
    assert [line if line[0] == "#" else line.split(",")[2] for line in lines[1:]] == [
        "# setup", "# step 0", "8", "9", "# step 1", "8", "9", "# step 2", "8", "9", "# end",
    ]  # fmt: skip


def test_a_script_that_fails_in_its_first_step(recorded, tmp_path):
    with pytest.raises(ZeroDivisionError):
        recorded("class Adam: pass\nhistory.alloc(8)\ntorch.step(Adam())\nhistory.alloc(9)\n1 / 0")
    lines = gzip.decompress((tmp_path / "trace.csv.gz").read_bytes()).decode().splitlines()
    assert marks_of(lines) == ["step 0", "step 1"]


def test_stalloc_stays_off(recorded):
    with pytest.warns(StallocWarning, match="this run is recorded"):
        status, _ = recorded("assert not stalloc.enable() and stalloc.stats().hits == 0\n" + LOOP)
    assert status == 0


def test_a_script_that_fails_is_recorded_up_to_there(recorded, tmp_path):
    with pytest.raises(ZeroDivisionError):
        recorded(LOOP + "history.alloc(77)\n1 / 0")
    lines = gzip.decompress((tmp_path / "trace.csv.gz").read_bytes()).decode().splitlines()
    assert lines[-2] == "# step 3" and lines[-1].split(",")[2] == "77"


@pytest.mark.parametrize(
    "call, status", [("sys.exit()", 0), ("sys.exit(4)", 4), ("sys.exit('why')", 1)]
)
def test_exit_status(recorded, call, status, capsys):
    got, lines = recorded(LOOP + call)
    assert got == status and lines[-1] == ("# end" if status == 0 else "# step 3")
    assert ("why" in capsys.readouterr().err) == (status == 1)


def test_what_a_script_sees(recorded, tmp_path):
    body = "assert sys.argv[1:] == ['-x', '1'] and __name__ == '__main__'\nimport beside\n"
    (tmp_path / "beside.py").write_text("")
    assert recorded(body, "-x", "1", file="plain.csv")[0] == 0


# More than any ring below holds, and steps that another thread may look between.
LONG = """
import time
for step in range(40):
    blocks = [history.alloc(1000 + n) for n in range(100)]
    for block in blocks:
        history.free(block)
    if "--unmarked" in sys.argv:
        time.sleep(0.06)  # then it is the watcher that looks
    else:
        stalloc.step()
"""


def test_a_run_that_outgrows_the_ring(recorded, history, monkeypatch):
    monkeypatch.setattr(record, "ENTRY_BYTES", (1 << 20) // 9000)
    status, lines = recorded(LONG, options=["--memory", "1MiB"])
    assert history.ring < 10_000 and history.looks > 2  # 12,000 entries and the marks'
    assert status == 0 and len(lines) == 1 + 41 + 40 * 300
    assert [line for line in lines if line[0] == "#"][1:] == [
        *(f"# step {n}" for n in range(40)), "# end",
    ]  # fmt: skip
    for step in range(40):
        body = lines[2 + step * 301 : 302 + step * 301]
        assert [line.split(",")[2] for line in body[:100]] == [str(1000 + n) for n in range(100)]
    ids = [int(line.split(",")[1]) for line in lines if line[0] == "a"]
    assert ids == list(range(4000))


def test_a_run_without_steps_outgrows_the_ring(recorded, history, monkeypatch):
    monkeypatch.setattr(record, "ENTRY_BYTES", (1 << 20) // 9000)
    status, lines = recorded(LONG, "--unmarked", options=["--memory", "1MiB"])
    assert status == 0 and len(lines) == 2 + 40 * 300 and history.looks > 2


def test_looks_fit_together_wherever_they_fall(history):
    """Every entry once and in its place, whatever the looks' times and the ring's size."""
    torch = sys.modules["torch"]
    for often in (1, 2, 3, 7, 50):
        reader, got, want = Recorded(torch, 0, 400), [], []
        reader.start()
        for n in range(120):
            history.free(history.alloc(n))
            want += [("alloc", n), ("free_requested", n), ("free_completed", n)]
            if n % 5 == 0:
                want.append((reader.mark(),))
            if n % often == 0:
                got += reader.look()
        got += reader.look()
        entries = [e for e in got if e.get("stream") != STREAM]  # without frees of marks
        assert [
            (e["action"], e["size"]) if "size" in e else (e["action"],) for e in entries
        ] == want
        reader.stop()


def test_an_overflow_is_told(recorded, history, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "ENTRY_BYTES", 1 << 18)
    assert recorded(LOOP, options=["--memory", "1MiB"]) == (1, None)
    assert "raise --memory" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.tmp"))


def test_a_request_of_the_marks_size_is_none(recorded):
    _, lines = recorded("history.alloc(1_000_003)\n" + LOOP)
    assert lines[2].startswith("a,0,1000003,0,") and len(marks_of(lines)) == 7


@pytest.mark.parametrize("rank", [{}, {"RANK": "3", "WORLD_SIZE": "4"}, {"SLURM_PROCID": "3"}])
def test_the_rank_in_the_files_name(recorded, tmp_path, monkeypatch, rank):
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    recorded("import os\n" + LOOP, file="trace.%r.csv")
    assert [p.name for p in tmp_path.glob("*.csv")] == [f"trace.{'3' if rank else '0'}.csv"]


def test_the_devices_rank(history, monkeypatch):
    torch = sys.modules["torch"]
    torch.cuda.device_count = lambda: 4
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert record._device(torch, None) == 2 and record._device(torch, 1) == 1
    monkeypatch.setenv("LOCAL_RANK", "9")
    assert record._device(torch, None) == torch.cuda.current_device()


def test_a_module(recorded, tmp_path, monkeypatch, capsys):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(
        "import stalloc, sys, torch\nfrom . import beside\nhistory = torch.history\n"
        "assert sys.argv[1:] == ['-x', '-m', '1'] and __name__ == '__main__'\n" + LOOP
    )
    (package / "beside.py").write_text("")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.csv"
    assert record.main(["-o", str(path), "-m", "pack.train", "-x", "-m", "1"]) == 0
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# workload pack.train torch") and len(marks_of(lines)) == 7


def test_a_terminated_script_is_recorded_up_to_there(recorded):
    body = "import os, signal\n" + LOOP + "os.kill(os.getpid(), signal.SIGTERM)\nhistory.alloc(9)"
    status, lines = recorded(body)
    assert status == 128 + signal.SIGTERM and lines[-1] == "# step 3"


def test_other_allocators_cannot_be_recorded(history, recorded, capsys):
    sys.modules["torch"].cuda.memory.get_allocator_backend = lambda: "cudaMallocAsync"
    assert recorded(LOOP) == (1, None)
    assert "cudaMallocAsync, which keeps no history" in capsys.readouterr().err


def test_no_gpu(recorded, capsys):
    sys.modules["torch"].cuda.is_available = lambda: False
    assert recorded(LOOP) == (1, None)
    assert "finds no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        (["-o", "x.csv", "absent.py"], "no such script"),
        (["-o", "x.csv", "-m", "absent.module"], "no such module"),
        (["-o", "x.csv", "-m"], "name a script"),
        (["-o", "x.csv"], "name a script"),
        (["-o", "/absent/x", "it.py"], "no folder"),
        (["-o", "x.csv", "--memory", "much", "it.py"], "like 512MiB"),
        (["-o", "x.csv", "--memory", "1KiB", "it.py"], "at least 1MiB"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "it.py").write_text("")
    with pytest.raises(SystemExit):
        record.main(options)
    assert message in capsys.readouterr().err


def test_several_ranks_need_a_file_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "it.py").write_text("")
    with pytest.raises(SystemExit):
        record.main(["-o", "x.csv", "it.py"])
    assert "put %r into its name" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["own.csv.gz", "own.csv"])
def test_the_go_reader_takes_it(recorded, tmp_path, file):
    recorded(LOOP, "--marked", file=file)

    def stalloc(*arguments):
        command = [str(ROOT / "bin" / "stalloc"), *arguments, str(tmp_path / file)]
        return subprocess.run(command, check=True, capture_output=True).stdout

    made = json.loads(stalloc("plan", "--json"))
    assert made["trace"] == "own" and made["peak_load_bytes"] == (130 << 20) + 1024
    replayed = [json.loads(line) for line in stalloc("replay", "--json").splitlines()]
    assert len(replayed) == 4
    assert {r["requests"] for r in replayed} == {7}
    assert {r["peak_load_bytes"] for r in replayed} == {(130 << 20) + 1024}
    stalloc("report", "-o", str(tmp_path / "own.html"))
    assert "130.00 MiB" in (tmp_path / "own.html").read_text()


def test_marks_do_nothing_outside_a_recording(process):
    import stalloc

    process()
    stalloc.mark("step 0")
    stalloc.step()
    assert not stalloc.is_recording()


def test_one_recording_at_a_time(history):
    args = types.SimpleNamespace(device=None, memory=1 << 30, output=Path("x.csv"))
    record.Recorder(args)
    with pytest.raises(StallocError, match="one at a time"):
        record.Recorder(args)


def recordings(words):
    return "record" in words or "stalloc.record" in words


@pytest.mark.parametrize("words", of("stalloc", "torchrun", where=recordings))
def test_as_documented(recorded, tmp_path, monkeypatch, words):
    """What README and docs tell people to type; a launcher's ranks are played by one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import stalloc, sys, torch\nhistory = torch.history\n" + LOOP
    )
    words = list(split(words)[1])
    if words[0] == "torchrun":
        for name, value in {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "0"}.items():
            monkeypatch.setenv(name, value)
    arguments = words[
        next(i for i, w in enumerate(words) if w in ("record", "stalloc.record")) + 1 :
    ]
    assert record.main(arguments) == 0
    path = tmp_path / arguments[arguments.index("-o") + 1].replace("%r", "3")
    assert gzip.decompress(path.read_bytes()).startswith(b"# workload train ")
