"""Plans in files that the program names: a later run need not see a step come again."""

import os
import stat

from programs import DRIVER, ENGINE
from test_warm import TRAINING

CONF = f"driver:{DRIVER},engine:{ENGINE}"
PLANS = """
def plan(what, path, device=0):
    call = getattr(L, f"stalloc_{what}_plan")
    call.argtypes = [ctypes.c_int, ctypes.c_char_p]
    status = call(device, str(path).encode())
    return "" if status == 0 else f"{status} {error()}"
"""


def test_saved_and_loaded(run, tmp_path):
    file = tmp_path / "training.plan"
    save = f"\nassert plan('save', {str(file)!r}) == '', error()\n"
    load = f"assert plan('load', {str(file)!r}) == '', error()\n"
    out, _ = run(PLANS + TRAINING + save, conf=CONF, STEPS="12")
    planned = int(out.split()[0])
    assert file.stat().st_size > 0
    for _ in range(2):  # a plan that was loaded is saved again
        out, _ = run(PLANS + load + TRAINING + save, conf=CONF, STEPS="12")
        assert int(out.split()[0]) < planned


def test_what_is_no_plan_is_told(run, tmp_path):
    (tmp_path / "notes").write_text("buy milk\n")
    text = f"""
notes, absent = {str(tmp_path / "notes")!r}, {str(tmp_path / "absent")!r}
print(plan("save", absent))
print(plan("load", notes))
print(plan("load", absent))
check()
print(plan("save", absent))
"""
    out, _ = run(PLANS + text, conf=CONF)
    lines = out.splitlines()
    assert lines[0].startswith("-6 ") and "nothing was allocated yet" in lines[0]
    assert "not a plan file" in lines[1] and str(tmp_path / "notes") in lines[1]
    assert "no such file" in lines[2] and "cannot be loaded" in lines[2]
    assert lines[3].startswith("-6 ") and "no step has been planned yet" in lines[3]


def test_plans_that_are_off(run, tmp_path):
    """What is wrong with a file is told all the same, and that a good one is not served."""
    file = tmp_path / "training.plan"
    save = f"\nassert plan('save', {str(file)!r}) == '', error()"
    run(PLANS + TRAINING + save, conf=CONF, STEPS="12")
    text = f"""
assert "no such file" in plan("load", {str(tmp_path / "absent")!r})
assert plan("load", {str(file)!r}) == ""
check()
"""
    for off in ("plan:off", "pool:gmlake"):
        _, err = run(PLANS + text, conf=f"{off},{CONF}")
        assert "a plan was loaded and is not served" in err and err.count("\n") == 1


def test_a_plan_comes_before_the_first_request(run, tmp_path):
    file = tmp_path / "training.plan"
    run(PLANS + TRAINING + f"\nassert plan('save', {str(file)!r}) == ''", conf=CONF, STEPS="12")
    out, _ = run(PLANS + f"check(); print(plan('load', {str(file)!r}))", conf=CONF)
    assert "load the plan before the first request" in out


def test_a_plan_is_saved_into_what_is_no_file(run, tmp_path):
    """A pipe stays a pipe, and a link a link; a pipe that nobody reads from is told at once."""
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to("file")
    save = f"""
print(plan('save', {str(pipe)!r}))
import os
reader = os.open({str(pipe)!r}, os.O_RDONLY | os.O_NONBLOCK)
assert plan('save', {str(pipe)!r}) == '', error()
assert plan('save', {str(link)!r}) == '', error()
print(os.read(reader, 8).decode())
"""
    out, _ = run(PLANS + TRAINING + save, conf=CONF, STEPS="12")
    told, read = out.splitlines()[-2:]
    assert told.startswith("-6 ") and str(pipe) in told and "nobody reads" in told
    assert read == "STALLOCP" and stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert link.is_symlink() and file.read_bytes().startswith(b"STALLOCP")
