"""A plan in a file that the program names serves a later run from its first request on."""

from programs import DRIVER, ENGINE
from test_warm import TRAINING

CONF = f"driver:{DRIVER},engine:{ENGINE},cache:off"
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
    assert out.startswith("0 ") and file.stat().st_size > 0
    for _ in range(2):  # a plan that served is saved again
        out, _ = run(PLANS + load + TRAINING + save, conf=CONF, STEPS="12")
        assert int(out.split()[0]) > 95


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


def test_a_plan_comes_before_the_first_request(run, tmp_path):
    file = tmp_path / "training.plan"
    run(PLANS + TRAINING + f"\nassert plan('save', {str(file)!r}) == ''", conf=CONF, STEPS="12")
    out, _ = run(PLANS + f"check(); print(plan('load', {str(file)!r}))", conf=CONF)
    assert "load the plan before the first request" in out
