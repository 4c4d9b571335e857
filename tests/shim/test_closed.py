"""Closing: plans of short runs are kept, the driver has everything back, requests go on."""

from programs import DRIVER
from test_warm import TRAINING

COUNT = """
driver = ctypes.CDLL(DRIVER)
driver.fakecuda_live.restype = ctypes.c_long
def held():
    return driver.fakecuda_live(b"handles"), driver.fakecuda_live(b"blocks")
"""


def test_the_plan_of_a_short_run_is_kept(run, tmp_path):
    """What waits for the planner is looked at, and the plan can be saved afterwards."""
    file = str(tmp_path / "plan").encode()
    end = f"\nassert L.stalloc_close(-1) == 0, error()\nL.stalloc_save_plan(0, {file!r})\n"
    out, _ = run(TRAINING + end, STEPS="5")
    assert int(out.split()[0]) >= 3
    assert (tmp_path / "plan").stat().st_size > 0


def test_live_blocks_stay_and_requests_go_on(run, tmp_path):
    text = f"""
DRIVER = {str(DRIVER)!r}
{COUNT}
for _ in range(5):
    blocks = [malloc(n * MIB) for n in (3, 5, 40)]
    for block in blocks: free(block)
    L.stalloc_step(-1)
keep = malloc(3 * MIB)
ctypes.memset(keep, 7, 3 * MIB)
assert L.stalloc_close(0) == 0, error()
assert 2 <= held()[0] <= 3 and held()[1] == 0, held()
late = malloc(5 * MIB)
ctypes.memset(late, 8, 5 * MIB)
assert held()[1] == 1
assert ctypes.string_at(keep, 3 * MIB) == b"\\x07" * (3 * MIB)
free(keep), free(late)
assert held() == (0, 0), held()
child = os.fork()
if child == 0:
    os._exit(0 if L.stalloc_close(-1) == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    out, err = run(text)
    assert err.splitlines() == [
        "stalloc: the engine does not serve device 0 (it was closed); "
        "serving from plain driver allocations"
    ]


def test_closed_before_the_first_request(run):
    out, err = run("assert L.stalloc_close(-1) == 0\ncheck(); check()")
    assert err.count("(it was closed)") == 1 and err.count("\n") == 1
