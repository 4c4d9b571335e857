"""PyTorch's memory history as lines of a trace, however often it is looked at."""

import sys
import threading
import types

from recording import LOOP, STREAM
from stalloc import record, record_history
from stalloc.record_history import MARK_BYTES as MARK
from stalloc.record_history import History as Recorded
from stalloc.record_history import Lines
from stalloc.record_stacks import Stacks


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


NESTED = """
def layer():
    return history.alloc(1 << 20)

def step():
    blocks = [layer() for _ in range(50)]
    for block in blocks:
        history.free(block)

for _ in range(3):
    step()
    stalloc.step()
"""


def test_stacks(recorded, history):
    status, lines = recorded(NESTED, options=["--stacks", "--poll", "0"])
    assert status == 0 and history.how == ("alloc", "python")
    stacks, texts = {}, set()
    for line in lines:
        if line[0] == "k":
            _, number, caller, frame = line.split(",", 3)
            stacks[number] = [*stacks.get(caller, []), frame.rpartition("/")[2]]
        elif line[0] == "a":
            texts.add(" > ".join(stacks[line.split(",")[5]]))
    # The program's own frames alone, told once, however often they ask.
    (text,) = texts
    own = [frame for frame in text.split(" > ") if "listcomp" not in frame]
    assert own[:3] == ["train it.py:13 <module>", "train it.py:8 step", "train it.py:5 layer"]
    assert len(stacks) == len(set(map(tuple, stacks.values()))) < 10
    plain = recorded(NESTED, options=["--poll", "0"])[1]  # or times differ
    without = [line for line in lines if line[0] != "k"]
    assert [",".join(line.split(",")[:5]) for line in without] == plain


def test_a_frames_text_is_one_line():
    stacks = Stacks()
    frame = {"filename": "a\nb.py", "line": 1, "name": "f" * 9000}
    number, lines = stacks.number([frame])
    assert number == 0 and len(lines) == 1 and "\n" not in lines[0] and len(lines[0]) < 5000
    assert stacks.number([]) == (None, []) and stacks.number([frame]) == (0, [])
    stacks.look()
    assert stacks.number([dict(frame)]) == (0, [])


def test_naming_frames_imports_nothing(recorded, history, monkeypatch):
    """PyTorch looks whether torch._inductor has a codecache, which would import it for that."""
    monkeypatch.delitem(sys.modules, "torch._inductor", raising=False)  # of an earlier test
    torch, asked, beside = sys.modules["torch"], [], []
    inductor = types.ModuleType("torch._inductor")
    inductor.codecache = "its own"
    importing = types.SimpleNamespace(import_module={"torch._inductor": inductor}.__getitem__)
    monkeypatch.setattr(record_history, "importlib", importing)
    snapshot = torch.cuda.memory._snapshot

    def named():
        asked.append(hasattr(torch._inductor, "codecache"))
        other = threading.Thread(target=lambda: beside.append(torch._inductor.codecache))
        other.start()
        other.join()
        return snapshot()

    torch.cuda.memory._snapshot = named
    assert recorded(LOOP, options=["--stacks"])[0] == 0
    assert asked and not any(asked) and set(beside) == {"its own"}
    assert not hasattr(torch, "_inductor")
    torch._inductor = inductor
    monkeypatch.setitem(sys.modules, "torch._inductor", inductor)
    asked.clear()
    assert recorded(LOOP, options=["--stacks"])[0] == 0
    assert all(asked) and torch._inductor is inductor
