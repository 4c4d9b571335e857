"""Workers, with a program and a PyTorch that only pretend."""

import os

import pytest
import workers

# Keeps what it is told to keep, and says how often this process ran it.
PROGRAM = """
import json, os, sys, time, torch
runs = 0
class Example:
    was = []
    imports = lambda: Example.was.append(torch.cuda.cached)
def main(argv):
    global runs
    runs += 1
    said = dict(zip(argv, argv[1:]))
    print("this is no answer")
    rank = os.environ.get("RANK", "0")
    if argv[0] == "--die" or argv[0] == "--die-of-two" and rank == "1":
        print("one\\nlast words", file=sys.stderr, flush=True)
        os._exit(7)
    if argv[0] == "--die-of-two":
        time.sleep(600)  # for the other rank
    torch.cuda.reserved = int(said.get("--keep", 0)) << 20
    report = {"run": runs, "process": os.getpid(), "allocator": said["--allocator"]}
    report["job"] = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "RENDEZVOUS")]
    report["gpu"] = os.environ["CUDA_VISIBLE_DEVICES"]
    report["cores"], report["imported"] = sorted(os.sched_getaffinity(0)), Example.was
    report["limited"], torch.cuda.limited = torch.cuda.limited, True
    if argv[0] == "--full":
        report["out_of_memory"] = {"step": 4}
    with open(said["--json"], "w") as file:
        json.dump(report, file)
    return 3 if argv[0] == "--full" else 0
"""
TORCH = """
import types
class cuda:
    reserved, limited, cached = 0, True, True
    is_available = lambda: True
    synchronize = reset_peak_memory_stats = reset_accumulated_memory_stats = lambda: None
    memory_reserved = lambda: cuda.reserved + (cuda.cached << 30)
    def empty_cache(): cuda.cached = False
    def set_per_process_memory_fraction(share): cuda.limited = share < 1
_C = types.SimpleNamespace()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "torch-2.11.0.dist-info").mkdir()
    about = "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n"
    (tmp_path / "torch-2.11.0.dist-info" / "METADATA").write_text(about)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with workers.Workers(share=2) as those:

        def run(*options, allocator="native", timeout=60, **how):
            words = [*options, "--x", 1]
            return those.launch(script, words, allocator, timeout, **{"turn": 0, **how})

        run.those, run.script = those, script
        yield run
    assert not those._there and not those._waiting


def test_a_turn_is_one_process_an_allocator(run):
    first, again = run(beside=("native", "expandable")), run()
    assert (first["run"], again["run"]) == (1, 2) and first["process"] == again["process"]
    assert not first["limited"] and not again["limited"]
    (other,) = (w for (_, name, _), (_, w) in run.those._there.items() if name == "expandable")
    assert run(allocator="expandable")["process"] == other._process.pid != first["process"]
    assert run(turn=1)["process"] != first["process"]


def test_memory_that_stays_ends_the_worker(run):
    first = run("--keep", "8")
    assert run("--keep", "9")["process"] == first["process"]
    fresh = run("--keep", "0")
    assert fresh["process"] != first["process"] and fresh["run"] == 1 and "left" not in fresh


def test_out_of_memory_and_other_ends(run):
    full = run("--full")
    assert full["failed"] == "out of memory in step 4" and full["out_of_memory"]["step"] == 4
    assert run()["process"] == full["process"] and not run()["limited"]
    assert run("--die") == {"failed": "exit status 7: last words"}
    assert run()["run"] == 1


def test_prepared_processes_train_once_each(run):
    runs = [(run.script, allocator, (0,)) for allocator in ("native", "expandable", "native")]
    run.those.prepare(runs)
    waiting = {
        allocator: [worker._process for (worker,) in each]
        for (_, allocator, _), each in run.those._waiting.items()
    }
    assert len(waiting["native"]) == 2 and len(waiting["expandable"]) == 1
    for process in waiting["native"]:
        report = run(turn=None)
        assert report["process"] == process.pid and report["run"] == 1
        assert report["imported"] == [True]  # before its memory was first cleaned
        assert process.poll() is not None
    assert waiting["expandable"][0].poll() is None
    assert run("--die", allocator="expandable", turn=None)["failed"] == "exit status 7: last words"
    assert run(turn=None)["process"] not in [process.pid for process in waiting["native"]]


def test_each_has_its_gpu_and_its_share_of_the_cores(run, monkeypatch):
    first, second = run(gpus=(0,)), run(gpus=(1,))
    assert (first["gpu"], second["gpu"]) == ("0", "1") and first["process"] != second["process"]
    assert first["job"] == [None] * 3
    every = sorted(os.sched_getaffinity(0))
    assert sorted({*first["cores"], *second["cores"]}) == every
    assert len(every) == 1 or first["cores"] == every[: len(every) // 2]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert run(gpus=(1,), turn=None)["gpu"] == "7"


def test_two_ranks_are_one_run(run):
    run.those.prepare([(run.script, "native", (0, 1))])
    report = run(turn=None, gpus=(0, 1))
    (other,) = report["others"]
    assert (report["gpu"], other["gpu"]) == ("0", "1") and report["process"] != other["process"]
    port = report["job"][2]
    assert port and (report["job"], other["job"]) == (["0", "2", port], ["1", "2", port])


def test_a_rank_that_fails_ends_the_run(run):
    report = run("--die-of-two", turn=None, gpus=(0, 1))  # the other would wait for minutes
    assert report == {"failed": "exit status 7: last words"}


def test_a_process_that_cannot_start_fails_its_run(run):
    run.script.write_text("raise SystemExit('no such module')")
    run.those.prepare([(run.script, "native", (0,))])
    assert run(turn=None) == {"failed": "exit status 1: no such module"}


def test_a_run_ends_with_its_time(run):
    run.those.prepare([(run.script, "native", (0,))])
    (((worker,),),) = run.those._waiting.values()
    report = run("--die-of-two", timeout=0.5, turn=None)  # the first rank sleeps
    assert report == {"failed": "no end after 0.5 s"}
    assert worker._process.poll() is not None
