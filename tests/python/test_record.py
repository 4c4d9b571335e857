"""Recording: from PyTorch's memory history to a trace that the Go reader takes."""

import gzip
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from stalloc import StallocError, StallocWarning, record

ROOT = Path(__file__).resolve().parents[2]
MARK = record.MARK_BYTES


class History:
    """PyTorch's caching allocator and its history, as far as a recording sees them."""

    def __init__(self):
        self.entries = None  # while nothing is recorded
        self.live = {}
        self.clock = 1_700_000_000_000_000
        self.limit = 0

    def _enter(self, action, address, stream=0):
        self.clock += 10
        entry = {
            "action": action, "addr": address, "size": self.live[address],
            "stream": stream, "time_us": self.clock, "frames": [],
        }  # fmt: skip
        if self.entries is not None:
            self.entries.append(entry)

    def alloc(self, size, stream=0):
        address = next(a for a in range(1 << 20, 1 << 40, 1 << 20) if a not in self.live)
        self.live[address] = size
        self._enter("alloc", address, stream)
        return address

    def free(self, address, stream=0):
        self._enter("free_requested", address, stream)
        self._enter("free_completed", address, stream)
        del self.live[address]

    def start(self, enabled="all", context="all", max_entries=0):
        self.entries = None if enabled is None else []

    def snapshot(self):
        return {"segments": [], "device_traces": [list(self.entries)]}


def entry(action, address, size=512, stream=0, time=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": time}


def test_the_format():
    history = [
        entry("alloc", 0x10, 4, 0x7F00, 1000),
        entry("segment_alloc", 0x10, 2 << 20, 0, 1001),
        entry("alloc", 0x20, 100, 0, 1002),
        entry("alloc", 0x30, MARK, 0, 1003),
        entry("free_requested", 0x30, MARK, 0, 1003),
        entry("free_completed", 0x30, MARK, 0, 1003),
        entry("free_requested", 0x10, 4, 0x7F00, 1004),
        entry("alloc", 0x30, 8, 0x7E00, 1005),
        {"action": "oom", "size": 5, "device_free": 1, "time_us": 1006},
        entry("free_completed", 0x10, 4, 0x7F00, 1007),
        entry("alloc", 0x10, 4, 0x7F00, 1008),
    ]
    assert list(record.lines(history, ["forward"])) == [
        "# step 0", "a,0,4,1,0", "a,1,100,0,2", "# forward", "r,0,4", "a,2,8,2,5", "f,0,7",
        "a,3,4,1,8",
    ]  # fmt: skip


def test_a_history_with_gaps():
    history = [
        entry("free_requested", 0x99),  # older than the history
        entry("free_completed", 0x99),
        entry("alloc", 0x10),
        entry("alloc", 0x10, 7),  # its free is missing
        entry("free_completed", 0x10, 7),  # without the request
        entry("free_completed", 0x10, 7),
    ]
    assert list(record.lines(history, [])) == [
        "# step 0", "a,0,512,0,0", "r,0,0", "f,0,0", "a,1,7,0,0", "r,1,0", "f,1,0",
    ]  # fmt: skip


@pytest.mark.parametrize("marks", [[], ["step 1", "step 2"]])
def test_marks_that_do_not_agree_with_the_history(marks):
    with pytest.raises(StallocError, match=f"{len(marks)} marks were set.*has 1 requests"):
        list(record.lines([entry("alloc", 0x10, MARK)], marks))


@pytest.fixture
def history(process):
    """A process with the fake PyTorch, whose CUDA keeps a history."""
    torch, history = process(), History()
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.init = torch.start_cuda
    cuda.device = lambda device: __import__("contextlib").nullcontext()
    cuda.caching_allocator_alloc, cuda.caching_allocator_delete = history.alloc, history.free
    cuda.get_device_name = lambda device: "Some GPU"
    cuda.memory._record_memory_history, cuda.memory._snapshot = history.start, history.snapshot
    torch.history = history
    return history


@pytest.fixture
def recorded(history, tmp_path, monkeypatch):
    """recorded(body, ...): records a script; its exit status and the trace's lines."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))

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


def test_a_full_history_is_no_trace(recorded, capsys):
    assert recorded(LOOP, options=["--max-events", "5"]) == (1, None)
    assert "raise it, or record fewer steps" in capsys.readouterr().err


def test_a_request_of_the_marks_size_is_told(recorded, tmp_path, capsys):
    assert recorded(LOOP + "history.alloc(1_000_003)") == (1, None)
    told = capsys.readouterr().err
    assert "6 marks were set, but the history has 7 requests" in told and "--mark-bytes" in told
    assert recorded(LOOP + "history.alloc(1_000_003)", options=["--mark-bytes", "999983"])[0] == 0
    assert not list(tmp_path.glob("*.tmp"))


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
    [(["-o", "x.csv", "absent.py"], "no such script"), (["-o", "/absent/x", "it.py"], "no folder")],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it.py").write_text("")
    with pytest.raises(SystemExit):
        record.main(options)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("file", ["own.csv.gz", "own.csv"])
def test_the_go_reader_takes_it(recorded, tmp_path, file):
    recorded(LOOP, "--marked", file=file)
    command = [str(ROOT / "bin" / "stalloc"), "plan", "--json", str(tmp_path / file)]
    made = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert made["trace"] == "own" and made["makespan_bytes"] == 130 << 20


def test_marks_do_nothing_outside_a_recording(process):
    import stalloc

    process()
    stalloc.mark("step 0")
    stalloc.step()
    assert not stalloc.is_recording()


def test_one_recording_at_a_time(history):
    args = types.SimpleNamespace(device=None, mark_bytes=MARK)
    record.Recorder(args)
    with pytest.raises(StallocError, match="one at a time"):
        record.Recorder(args)
