"""Where the steps of a recording begin and end."""

import gzip

import pytest
from recording import LOOP, marks_of
from stalloc.record_history import MARK_BYTES as MARK


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


def test_a_request_of_the_marks_size_is_none(recorded):
    _, lines = recorded("history.alloc(1_000_003)\n" + LOOP)
    assert lines[2].startswith("a,0,1000003,0,") and len(marks_of(lines)) == 7


def test_the_last_mark_is_the_end_whatever_the_script_marks(recorded):
    body = "    stalloc.mark(f'step {n}')\n    history.alloc(9)\n    stalloc.step()\n"
    _, lines = recorded("for n in (1, 2):\n" + body)
    assert marks_of(lines) == ["step 0", "step 1", "step 1", "step 2", "end"]


def test_a_long_mark_is_cut_for_those_who_read_lines(recorded):
    _, lines = recorded("history.alloc(9)\nstalloc.mark('é' * 100_000)")
    assert marks_of(lines) == ["step 0", "é" * 4096]


def test_marks_do_nothing_outside_a_recording(process):
    import stalloc

    process()
    stalloc.mark("step 0")
    stalloc.step()
    assert not stalloc.is_recording()
