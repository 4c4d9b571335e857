"""What the GPU test of neighbours makes of a job: a way that fails leaves the others theirs."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FIGURES = {"way": "plain", "world": 2, "slept": 3 << 30, "stuck": 96 << 20, "range": [1, 2]}
PASSED = json.dumps({**FIGURES, "awake": "NCCL's windows 8.00 MiB"})
NCCL = [
    "h:1:2 [0] NCCL INFO register comm 0x1 buffer 0x2 size 3",
    "h:1:2 [0] NCCL INFO AllGather: 1677 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
    "h:1:2 [0] NCCL INFO rank 0 - IPC register buffer 0x2 size 3 (baseAddr 0x2 size 3) to peer 1",
]


@pytest.fixture
def neighbours(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "gpu"))
    for name in ("gpu", "test_neighbours"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import gpu
    import test_neighbours

    monkeypatch.setattr(gpu, "devices", lambda: 2)
    return test_neighbours


def starts(monkeypatch, neighbours, *outputs):
    """A job whose starts end so, one after the other; the ways that each was to do."""
    asked, rest = [], iter(outputs)

    def torchrun(program, allocator, *ways, **more):
        asked.append(ways)
        return next(rest)

    monkeypatch.setattr(neighbours.gpu, "torchrun", torchrun)
    monkeypatch.setitem(neighbours.JOBS, "share:fd", ("stalloc", {}, "plain own graph"))
    return neighbours.Job("share:fd", None), asked


def test_a_way_that_fails_leaves_the_others_their_result(neighbours, monkeypatch):
    first = (1, ["way plain", *NCCL, PASSED, "way own", "[rank1]: RuntimeError: no pool"])
    second = (0, ["way graph", PASSED.replace("plain", "graph")])
    job, asked = starts(monkeypatch, neighbours, first, second)
    said = job.result("plain")
    assert "zero copy: yes (zero copy set up 1, announced 1, Algo RING proto SIMPLE 1)" in said
    assert "did NOT get back 96 MiB" in said and "; awake: NCCL's windows 8.00 MiB;" in said
    with pytest.raises(AssertionError, match="no pool"):
        job.result("own")
    assert "zero copy: no" in job.result("graph")
    assert asked == [("plain", "own", "graph"), ("graph",)]


@pytest.mark.parametrize("status", [1, None])
def test_a_job_that_fails_outside_of_ways_does_not_go_on_for_ever(neighbours, monkeypatch, status):
    died = (status, ["ImportError: no such library"])
    ended = (status, ["way graph", PASSED, "Error: it did not end"])
    job, _ = starts(monkeypatch, neighbours, died, died, ended)
    for way, why in (("plain", "such library"), ("own", "such library"), ("graph", "did not end")):
        with pytest.raises(AssertionError, match=why):
            job.result(way)


SAVER = """
import sys
if sys.argv[3] != "crashes":
    print('{"words": "all went back"}', flush=True)
print("[torch_memory_saver.cpp] only support interesting region", file=sys.stderr)
sys.exit(1)
"""


@pytest.fixture
def saver(neighbours, monkeypatch, tmp_path):
    """Programs that end as torch_memory_saver's pool ends them."""
    program = tmp_path / "savers.py"
    program.write_text(SAVER)
    monkeypatch.setattr(neighbours, "SAVERS", str(program))
    monkeypatch.setattr(neighbours.importlib.util, "find_spec", lambda name: name)
    return neighbours


def test_how_torch_memory_savers_pool_ends(saver, monkeypatch):
    said = saver.check_torch_memory_saver_by_its_pool_under_native()
    assert said.startswith("exit status 1 after all was right: ") and said.endswith(" region")
    assert saver.check_torch_memory_saver_by_its_pool() == said
    ours = saver.by_pool("crashes")
    assert saver.ended(*ours).startswith("exit status 1 before all was checked: ")
    ends = {"stalloc": ours, "native": saver.by_pool("native")}
    monkeypatch.setattr(saver, "by_pool", ends.get)
    with pytest.raises(AssertionError, match="before all was checked"):
        saver.check_torch_memory_saver_by_its_pool()


def test_torch_memory_saver_is_not_there(neighbours, monkeypatch):
    monkeypatch.setattr(neighbours.importlib.util, "find_spec", lambda name: None)
    assert neighbours.check_torch_memory_saver_by_its_pool().startswith("not run: pip install")


def test_only_some_cells(neighbours, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["test_neighbours.py", "--only", "(share:off)", "by its pool"])
    monkeypatch.setattr(neighbours.gpu, "run", lambda checks: wanted.extend(checks))
    wanted = []
    neighbours.main()
    assert wanted == [
        "check_torch_memory_saver_by_its_pool_under_native", "check_torch_memory_saver_by_its_pool",
        *(f"check_{way} (share:off)" for way in neighbours.JOBS["share:off"][2].split()),
    ]  # fmt: skip
